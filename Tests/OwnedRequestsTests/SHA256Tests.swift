import Foundation
import Testing

@testable import OwnedRequests

/// The vectors of NIST's FIPS 180-4 examples and of its validation programme.
@Suite struct SHA256Tests {
  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    (
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
    ),
  ])
  func knownTextsHaveTheirDigests(text: String, digest: String) {
    #expect(SHA256.hexadecimal(SHA256.digest(of: Data(text.utf8))) == digest)
  }

  @Test func shortMessagesOfBytesHaveTheirDigests() {
    #expect(
      SHA256.hexadecimal(SHA256.digest(of: Data([0xbd]))) == "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b")
    #expect(
      SHA256.hexadecimal(SHA256.digest(of: Data(repeating: 0, count: 64)))
        == "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b")
  }

  @Test func aMillionLettersHaveTheirDigestHoweverTheyAreCut() {
    let digest = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
    for size in [1_000_000, 100_003, 4096] {
      var hasher = SHA256()
      var left = 1_000_000
      while left > 0 {
        hasher.update(Data(repeating: UInt8(ascii: "a"), count: min(size, left)))
        left -= size
      }
      #expect(SHA256.hexadecimal(hasher.finish()) == digest, "in pieces of \(size)")
    }
  }

  @Test func everyLengthAroundABlockIsTheSameInOnePieceAndInBytes() {
    for length in 0..<200 {
      let data = Data((0..<length).map { UInt8($0) })
      var hasher = SHA256()
      for byte in data { hasher.update(Data([byte])) }
      #expect(hasher.finish() == SHA256.digest(of: data), "length \(length)")
    }
  }
}
