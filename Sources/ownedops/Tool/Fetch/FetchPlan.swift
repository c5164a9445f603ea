import Foundation
import OwnedRequests

/// One file to be fetched.
struct FetchItem: Sendable {
  let request: Request
  /// Without user and password.
  let shownURL: String
  let host: String
  let directory: String
  let path: String
  let sha256: String?
  /// The name came from the URL, so the server may give another.
  let isNamedByURL: Bool
}

/// What will be fetched to where: all that can be known, and refused, before anything is sent.
struct FetchPlan: Sendable {
  private(set) var items: [FetchItem] = []
  /// How many URLs were given more than once.
  private(set) var repetitions = 0
  /// The paths of all items, those on the way to them included.
  private(set) var claimed: Set<String> = []

  private struct Address {
    var url: URL
    var shown: String
    var host: String
    var headers: [String: String]
  }

  init(_ options: FetchOptions) throws(UsageError) {
    var paths: [String?] = []
    // First those that were named, so that numbers go to others.
    var claimants: [String: String] = [:]
    for entry in options.entries {
      guard let path = try Self.path(of: entry, in: options.directory) else {
        paths.append(nil)
        continue
      }
      let isFree = claim(path)
      if !isFree, let other = claimants[path], let first = options.entries.first(where: { $0.source == other }), first.url == entry.url {
        // The same file of the same URL: it is fetched once.
      } else if !isFree {
        throw UsageError("\(entry.source): \(path) is the file of \(claimants[path] ?? "another URL"), too; give another name")
      }
      claimants[path] = claimants[path] ?? entry.source
      paths.append(path)
    }
    var digests: [String: String] = [:]
    for (entry, path) in zip(options.entries, paths) {
      guard let digest = entry.sha256 else { continue }
      let former = digests.updateValue(digest, forKey: Self.key(entry, path))
      if let former, former != digest { throw UsageError("\(entry.source): the same URL has another sha256 above") }
    }
    var seen: Set<String> = []
    var numbers: [String: Int] = [:]
    for (entry, path) in zip(options.entries, paths) {
      let key = Self.key(entry, path)
      guard seen.insert(key).inserted else {
        repetitions += 1
        continue
      }
      let address = try Self.address(of: entry, options)
      var request = Request(.get, address.url.absoluteString, headers: address.headers)
      request.retry = .exponential(attempts: options.retries + 1)
      if let timeout = options.timeout { request.timeout = timeout }
      do throws(RequestError) { _ = try request.urlRequest(relativeTo: nil) } catch { throw UsageError("\(entry.source): \(error)") }
      let name = FetchName.name(of: address.url)
      let target = if let path { path } else { try freePath(for: name, in: options.directory, &numbers, entry) }
      items.append(
        FetchItem(
          request: request, shownURL: address.shown, host: address.host, directory: options.directory, path: target, sha256: digests[key],
          isNamedByURL: entry.name == nil))
    }
  }

  /// Equal for entries that are fetched once.
  private static func key(_ entry: FetchEntry, _ path: String?) -> String { entry.url + "\n" + (path ?? "") }

  // MARK: Paths

  static func joined(_ directory: String, _ name: String) -> String {
    directory == "." ? name : directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
  }

  private static func path(of entry: FetchEntry, in directory: String) throws(UsageError) -> String? {
    guard let name = entry.name else { return nil }
    if entry.nameIsFree {
      guard !name.hasSuffix("/") else { throw UsageError("--out: \(name) is a directory; give -d for that") }
      return name.hasPrefix("/") ? name : joined(directory, name)
    }
    guard let parts = FetchName.parts(ofRelative: name) else {
      throw UsageError("\(entry.source): out=\(name) leads out of the directory; give a name below it, without ..")
    }
    if let long = parts.first(where: { $0.utf8.count > FetchName.longest }) {
      throw UsageError("\(entry.source): the name \(long) is too long")
    }
    return joined(directory, parts.joined(separator: "/"))
  }

  /// - Returns: false if one of the files that come with it is another's.
  private mutating func claim(_ path: String) -> Bool {
    let all = [path, path + ".part", path + ".part.info"]
    guard !all.contains(where: claimed.contains) else { return false }
    claimed.formUnion(all)
    return true
  }

  private mutating func freePath(for name: String, in directory: String, _ numbers: inout [String: Int], _ entry: FetchEntry)
    throws(UsageError)
    -> String
  {
    guard name.utf8.count + 8 <= FetchName.longest else {
      throw UsageError(
        "\(entry.source): the name in the URL is too long for a file; give another with \(entry.source.hasPrefix("URL") ? "-o" : "out=")")
    }
    var candidate = name
    while !claim(Self.joined(directory, candidate)) {
      let number = numbers[name, default: 0] + 1
      numbers[name] = number
      candidate = FetchName.numbered(name, number)
    }
    return Self.joined(directory, candidate)
  }

  // MARK: Addresses

  private static func address(of entry: FetchEntry, _ options: FetchOptions) throws(UsageError) -> Address {
    let text = entry.url
    guard !text.unicodeScalars.contains(where: { $0 == " " || $0.isControl }) else {
      throw UsageError("\(entry.source): \"\(AddressText.shown(text))\" has a space in it; write %20\(AddressText.hint(for: text))")
    }
    guard var components = URLComponents(string: text), let scheme = components.scheme?.lowercased(), ["http", "https"].contains(scheme),
      let host = components.host, !host.isEmpty
    else {
      throw UsageError(
        "\(entry.source): \"\(AddressText.shown(text))\" is no URL that begins with http:// or https://\(AddressText.hint(for: text))")
    }
    var headers = options.headers
    if let user = components.user {
      let words = Data("\(user):\(components.password ?? "")".utf8).base64EncodedString()
      if !headers.keys.contains(where: { $0.lowercased() == "authorization" }) { headers["Authorization"] = "Basic \(words)" }
      components.user = nil
      components.password = nil
    }
    components.fragment = nil
    if !headers.keys.contains(where: { $0.lowercased() == "user-agent" }) { headers["User-Agent"] = "ownedops/\(ToolVersion.current)" }
    guard let url = components.url else { throw UsageError("\(entry.source): \"\(AddressText.shown(text))\" is not a URL") }
    let port = components.port.map { ":\($0)" } ?? ""
    return Address(url: url, shown: url.absoluteString, host: host.lowercased() + port, headers: headers)
  }
}
