/// Percent escapes for what an address can't have as it is: brackets in a query, letters with accents.
///
/// `URL(string:)` adds them, too. But where there is one to add, it takes those that are there for plain text: of `f[name]=Ann%20Lee` it
/// makes `f%5Bname%5D=Ann%2520Lee`, and the server finds another name.
enum AddressEscapes {
  /// The address with all escapes that it needs. Those that are there stay, and so does the host, which is escaped in another way.
  /// - Complexity: linear in the text.
  static func added(to address: String) -> String {
    let text = Array(address.utf8)
    let (user, host) = authority(in: text)
    // Another one in the user's name is part of it.
    let mayStay = { (index: Int) in isPlain(text, index) && !(text[index] == UInt8(ascii: "@") && user.contains(index)) }
    guard !text.indices.allSatisfy(mayStay) else { return address }
    var escaped: [UInt8] = []
    var isFragment = false
    // What is before a colon, and has an escape, is no scheme: but it would be taken for one.
    var mayBeScheme = true
    var hasEscape = false
    for index in text.indices {
      let byte = text[index]
      // Another one in the fragment is part of it.
      let beginsFragment = byte == UInt8(ascii: "#") && !isFragment
      isFragment = isFragment || beginsFragment
      let endsNoScheme = mayBeScheme && hasEscape && byte == UInt8(ascii: ":")
      if "/?#:".utf8.contains(byte) { mayBeScheme = false }
      if beginsFragment || host.contains(index) || mayStay(index) && !endsNoScheme {
        escaped.append(byte)
      } else {
        hasEscape = true
        escaped += [UInt8(ascii: "%"), hexadecimal[Int(byte >> 4)], hexadecimal[Int(byte & 15)]]
      }
    }
    return String(decoding: escaped, as: UTF8.self)
  }

  /// Between slashes and path: the user, before the last `@`, and host and port. Empty if there is none.
  private static func authority(in text: [UInt8]) -> (user: Range<Int>, host: Range<Int>) {
    let slash = UInt8(ascii: "/")
    let end = { (start: Int) in text[start...].firstIndex { "/?#".utf8.contains($0) } ?? text.endIndex }
    let start = end(0)
    // Nothing but a scheme is before them.
    guard text[start...].starts(with: [slash, slash]), start == 0 || text[start - 1] == UInt8(ascii: ":") else { return (0..<0, 0..<0) }
    let authority = start + 2..<end(start + 2)
    guard let at = text[authority].lastIndex(of: UInt8(ascii: "@")) else { return (0..<0, authority) }
    return (authority.lowerBound..<at, at + 1..<authority.upperBound)
  }

  private static func isPlain(_ text: [UInt8], _ index: Int) -> Bool {
    switch text[index] {
    case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
    case UInt8(ascii: "%"): index + 2 < text.endIndex && isHexadecimal(text[index + 1]) && isHexadecimal(text[index + 2])
    default: "-._~!$&'()*+,;=:@/?".utf8.contains(text[index])
    }
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool { Character(UnicodeScalar(byte)).isHexDigit }

  private static let hexadecimal = Array("0123456789ABCDEF".utf8)
}
