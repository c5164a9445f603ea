import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// An answer in the cache.
struct CachedResponse: Sendable, Equatable {
  var head: ResponseHead
  var body: Data
  var storedAt: Date
  /// Nil if it is worth keeping for ever.
  var expiresAt: Date?

  var weight: Int { body.count + 512 + head.headers.sortedPairs.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count } }

  /// A strong or weak `ETag`, or a date, to ask the server with; nil if it gave none.
  var validators: Validators? {
    let (tag, date) = (head.headers["ETag"], head.headers["Last-Modified"])
    return tag == nil && date == nil ? nil : Validators(address: Validators.address(head.url), tag: tag, date: date)
  }

  /// After the server has said that it is still valid.
  func refreshed(by answer: ResponseHead, now: Date) -> CachedResponse {
    var fresh = self
    for (name, value) in answer.headers.sortedPairs where !["content-length", "content-encoding", "transfer-encoding"].contains(name) {
      fresh.head.headers[name] = value
    }
    fresh.storedAt = now
    return fresh
  }
}

/// The form of an entry in a file:
///
///     "OWNR", version (4 bytes), expiry (8 bytes, seconds since 1970, or infinity), SHA-256 of the rest (32 bytes),
///     length of the description (4 bytes), description (JSON: key and head), body
///
/// Numbers are little-endian. Anything that is not exactly this is damaged.
enum CacheFile {
  static let version: UInt32 = 1
  static let headerLength = 48
  private static let magic = Data("OWNR".utf8)

  private struct Description: Codable {
    var method: String
    var url: String
    var requestHeaders: [String: String]
    var status: Int
    var headers: [String: String]
    var answeredBy: String
    var storedAt: Double
  }

  static func encode(_ entry: CachedResponse, for key: TransferKey) throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let description = try encoder.encode(
      Description(
        method: key.method, url: key.url, requestHeaders: lowercased(key.headers), status: entry.head.status,
        headers: entry.head.headers.dictionary, answeredBy: entry.head.url.absoluteString, storedAt: entry.storedAt.timeIntervalSince1970))
    let payload = bytes(of: UInt32(description.count)) + description + entry.body
    let expiry = (entry.expiresAt?.timeIntervalSince1970 ?? .infinity).bitPattern
    return magic + bytes(of: version) + bytes(of: expiry) + Data(SHA256.digest(of: payload)) + payload
  }

  /// Nil if the file is damaged, of another version, or of another key.
  static func decode(_ file: Data, for key: TransferKey) -> CachedResponse? {
    guard let expiry = expiry(ofHeader: file), file.count >= headerLength + 4 else { return nil }
    let file = file.startIndex == 0 ? file : Data(file)
    let payload = file[headerLength...]
    guard Data(SHA256.digest(of: payload)) == file[16..<48] else { return nil }
    let length = Int(number(in: file, at: headerLength, as: UInt32.self))
    guard payload.count >= 4 + length else { return nil }
    let start = headerLength + 4
    guard let description = try? JSONDecoder().decode(Description.self, from: file[start..<start + length]),
      description.method == key.method,
      description.url == key.url, description.requestHeaders == lowercased(key.headers), let url = URL(string: description.answeredBy)
    else { return nil }
    return CachedResponse(
      head: ResponseHead(status: description.status, headers: HeaderFields(description.headers), url: url),
      body: Data(file[(start + length)...]),
      storedAt: Date(timeIntervalSince1970: description.storedAt), expiresAt: expiry.isFinite ? Date(timeIntervalSince1970: expiry) : nil)
  }

  /// From the first bytes of a file; nil if they are not those of an entry.
  static func expiry(ofHeader file: Data) -> Double? {
    let file = file.startIndex == 0 ? file : Data(file)
    guard file.count >= headerLength, file[0..<4] == magic, number(in: file, at: 4, as: UInt32.self) == version else { return nil }
    return Double(bitPattern: number(in: file, at: 8, as: UInt64.self))
  }

  /// The file's name: the same for equal keys in all processes.
  static func name(for key: TransferKey) -> String {
    let text = ([key.method, key.url] + key.headers.sortedPairs.flatMap { [$0.name, $0.value] }).joined(separator: "\n")
    return SHA256.hexadecimal(SHA256.digest(of: Data(text.utf8))) + ".response"
  }

  private static func lowercased(_ headers: HeaderFields) -> [String: String] {
    Dictionary(headers.sortedPairs.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
  }

  private static func bytes<Number: FixedWidthInteger>(of number: Number) -> Data {
    withUnsafeBytes(of: number.littleEndian) { Data($0) }
  }

  private static func number<Number: FixedWidthInteger>(in file: Data, at offset: Int, as: Number.Type) -> Number {
    file.withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
  }
}
