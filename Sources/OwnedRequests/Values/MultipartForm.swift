import Foundation

/// A form of several parts, files among them: `multipart/form-data`.
///
/// ```swift
/// var form = MultipartForm()
/// form.append(Data("Ann".utf8), name: "author")
/// try form.append(file: URL(filePath: "/etc/hosts"), name: "attachment")
/// let request = Request(.post, "https://example.com/notes", parameters: .multipart(form))
/// ```
///
/// Files are measured when they are appended and read when the form is sent, in pieces. One that has changed its length meanwhile is an
/// error. A form with files, or of more than a mebibyte, is laid out in a temporary file first, because servers want its length
/// beforehand. That happens when the request has its turn at its host: one that waits has no such file, nor a second copy in memory. Only
/// the user may read the file. It goes when the attempt is over; one of a process that is killed stays.
public struct MultipartForm: Sendable {
  enum Content: Sendable {
    case data(Data)
    case file(URL)
  }

  struct Part: Sendable {
    let name: String
    let header: Data
    let content: Content
    let length: Int64
    /// Said when the form is to be sent, where `append` can't throw.
    let complaint: String?
  }

  let boundary: String
  private(set) var parts: [Part] = []

  /// Makes an empty form, with a boundary of its own.
  public init() {
    let digits = (0..<32).map { _ in String(Int.random(in: 0..<16), radix: 16) }
    self.init(boundary: "owned-requests-" + digits.joined())
  }

  init(boundary: String) { self.boundary = boundary }

  /// Appends a field, or, with a name for it, a file whose content is at hand. The type is by default none for a field, and for a file
  /// what the extension of its name says.
  public mutating func append(_ data: Data, name: String, fileName: String? = nil, mimeType: String? = nil) {
    append(.data(data), Int64(data.count), name, fileName, mimeType ?? fileName.map(Self.mimeType))
  }

  /// Appends a file, to be read when the form is sent. By default it is called by its own name, and has the type that the extension says.
  /// - Throws: ``RequestError/invalidParameters(_:)`` if there is no such file, or it is not a regular one, or may not be read.
  public mutating func append(file: URL, name: String, fileName: String? = nil, mimeType: String? = nil) throws {
    let length = try FileParameter.length(of: file, parameter: name)
    let fileName = fileName ?? file.lastPathComponent
    append(.file(file), length, name, fileName, mimeType ?? Self.mimeType(of: fileName))
  }

  private mutating func append(_ content: Content, _ length: Int64, _ name: String, _ fileName: String?, _ mimeType: String?) {
    var header = "Content-Disposition: form-data; name=\"\(Self.quote(name))\""
    if let fileName { header += "; filename=\"\(Self.quote(fileName))\"" }
    header += "\r\n"
    if let mimeType { header += "Content-Type: \(mimeType)\r\n" }
    let complaint = mimeType.flatMap { HeaderFields.complaint(about: "Content-Type", value: $0) }
    parts.append(Part(name: name, header: Data((header + "\r\n").utf8), content: content, length: length, complaint: complaint))
  }

  /// As browsers do it: quotes and line breaks are escaped, everything else is UTF-8.
  private static func quote(_ text: String) -> String {
    text.replacingOccurrences(of: "\"", with: "%22").replacingOccurrences(of: "\r", with: "%0D").replacingOccurrences(of: "\n", with: "%0A")
  }

  /// How many bytes the whole form takes, delimiters included.
  /// - Complexity: linear in the parts.
  public var contentLength: Int64 {
    var length = Int64(end.count)
    for index in parts.indices { length += Int64(start(of: index).count + parts[index].header.count) + parts[index].length }
    return length
  }

  /// `multipart/form-data` with the form's boundary.
  public var contentType: String { "multipart/form-data; boundary=\(boundary)" }

  // MARK: Encoding

  /// Whether it is sent from a file. A small one without files is put together at once, and interceptors see it.
  var isLaidOut: Bool {
    contentLength > Self.longestInMemory
      || parts.contains { part in
        if case .file = part.content { true } else { false }
      }
  }

  static let longestInMemory: Int64 = 1 << 20

  private func start(of index: Int) -> Data { Data((index == 0 ? "--\(boundary)\r\n" : "\r\n--\(boundary)\r\n").utf8) }
  private var end: Data { Data((parts.isEmpty ? "--\(boundary)--\r\n" : "\r\n--\(boundary)--\r\n").utf8) }

  /// What can be said before anything is sent: the types of the parts, and that the files are there.
  func check() throws(RequestError) {
    for part in parts {
      if let complaint = part.complaint { throw .invalidParameters("parameter \"\(part.name)\": \(complaint)") }
      guard case .file(let url) = part.content else { continue }
      let length = try FileParameter.length(of: url, parameter: part.name)
      guard length == part.length else { throw changed(part, url) }
    }
  }

  private func changed(_ part: Part, _ url: URL) -> RequestError {
    .invalidParameters("parameter \"\(part.name)\": the file \(url.path) no longer has \(part.length) bytes; append it anew")
  }

  /// For a form that is not laid out.
  func bytes() -> Data {
    var bytes = Data(capacity: Int(contentLength))
    for (index, part) in parts.enumerated() {
      bytes += start(of: index)
      bytes += part.header
      if case .data(let data) = part.content { bytes += data }
    }
    return bytes + end
  }

  /// Writes the form to a file, which has to exist, in pieces.
  /// - Parameter shouldStop: asked before each piece. What was written so far is left there.
  func write(to file: URL, shouldStop: () -> Bool = { false }) throws(RequestError) {
    do {
      let output = try FileHandle(forWritingTo: file)
      defer { try? output.close() }
      for (index, part) in parts.enumerated() {
        if shouldStop() { throw RequestError.cancelled(.requested) }
        try output.write(contentsOf: start(of: index))
        try output.write(contentsOf: part.header)
        switch part.content {
        case .data(let data): try output.write(contentsOf: data)
        case .file(let url):
          guard try Self.copy(url, to: output, atMost: part.length, shouldStop) == part.length else { throw changed(part, url) }
        }
      }
      try output.write(contentsOf: end)
    } catch let error as RequestError {
      throw error
    } catch {
      throw .fileSystem(error)
    }
  }

  private static let piece = 256 * 1024

  /// A file that has become longer, and may go on to, is read no further than that shows.
  private static func copy(_ url: URL, to output: FileHandle, atMost most: Int64, _ shouldStop: () -> Bool) throws -> Int64 {
    let input = try FileHandle(forReadingFrom: url)
    defer { try? input.close() }
    var length: Int64 = 0
    while length <= most, let data = try input.read(upToCount: piece), !data.isEmpty {
      try output.write(contentsOf: data)
      length += Int64(data.count)
      if shouldStop() { throw RequestError.cancelled(.requested) }
    }
    return length
  }

  private static func mimeType(of fileName: String) -> String {
    let dot = fileName.lastIndex(of: ".").map(fileName.index(after:))
    return mimeTypes[dot.map { fileName[$0...].lowercased() } ?? ""] ?? "application/octet-stream"
  }

  private static let mimeTypes = [
    "css": "text/css", "csv": "text/csv", "gif": "image/gif", "gz": "application/gzip", "htm": "text/html", "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg", "js": "text/javascript", "json": "application/json", "mov": "video/quicktime", "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "pdf": "application/pdf", "png": "image/png", "svg": "image/svg+xml", "txt": "text/plain", "webp": "image/webp",
    "xml": "application/xml",
    "zip": "application/zip",
  ]
}
