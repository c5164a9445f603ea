import Foundation

/// What a request carries. The method decides where it goes. A form goes into the query for GET, HEAD and DELETE, else into the body.
/// Everything else is a body, which GET and HEAD refuse.
public struct Parameters: Sendable {
  enum Kind: Sendable {
    case form([String: ParameterValue])
    /// What to call it in errors, its type, and the encoder.
    case encoded(String, contentType: String, @Sendable () throws -> Data)
    case multipart(MultipartForm)
    case data(Data, contentType: String)
    case file(URL, contentType: String)
  }

  let kind: Kind

  /// `application/x-www-form-urlencoded`: `a[]=1&a[]=2`, `b[c]=3`, true as 1, sorted by name, escaped after RFC 3986 (brackets, too).
  public static func form(_ values: [String: ParameterValue]) -> Parameters { Parameters(kind: .form(values)) }

  /// `application/json`, with sorted keys. Encoded when the request starts, on a background thread.
  public static func json(_ value: some Encodable & Sendable) -> Parameters {
    Parameters(
      kind: .encoded("json", contentType: "application/json") {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
      })
  }

  /// `application/x-plist`, in XML. Encoded when the request starts, on a background thread.
  public static func propertyList(_ value: some Encodable & Sendable) -> Parameters {
    Parameters(
      kind: .encoded("propertyList", contentType: "application/x-plist") {
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .xml
        return try encoder.encode(value)
      })
  }

  /// `multipart/form-data`. Files are streamed, never whole in memory; the length is known beforehand.
  public static func multipart(_ form: MultipartForm) -> Parameters { Parameters(kind: .multipart(form)) }

  /// These bytes.
  public static func data(_ data: Data, contentType: String) -> Parameters { Parameters(kind: .data(data, contentType: contentType)) }

  /// The content of a file, streamed. One whose length changes while it is sent fails the request, with ``RequestError/fileSystem(_:)``.
  public static func file(_ url: URL, contentType: String) -> Parameters { Parameters(kind: .file(url, contentType: contentType)) }
}

/// What is sent after the header.
enum RequestBody: Sendable {
  case none
  case data(Data)
  case file(URL)
  /// To be laid out in a file, when the request has its turn.
  case form(MultipartForm)

  /// Whether it may take long, so that no limit in total suits it.
  var isStreamed: Bool {
    switch self {
    case .none, .data: false
    case .file, .form: true
    }
  }

  var isNone: Bool {
    switch self {
    case .none: true
    case .data(let data): data.isEmpty
    case .file, .form: false
    }
  }

  /// Whether it has to be laid out before it is sent.
  var isForm: Bool {
    if case .form = self { true } else { false }
  }
}

extension Parameters {
  var formValues: [String: ParameterValue]? {
    if case .form(let values) = kind { values } else { nil }
  }

  func body() throws(RequestError) -> (body: RequestBody, contentType: String) {
    switch kind {
    case .form(let values): return (.data(Data(try FormEncoding.encode(values).utf8)), "application/x-www-form-urlencoded")
    case .encoded(let name, let contentType, let encode):
      do { return (.data(try encode()), contentType) } catch {
        throw .invalidParameters("parameter \(name): \(Self.explanation(of: error))")
      }
    case .multipart(let form):
      try form.check()
      return (form.isLaidOut ? .form(form) : .data(form.bytes()), form.contentType)
    case .data(let data, let contentType): return (.data(data), contentType)
    case .file(let url, let contentType):
      _ = try FileParameter.length(of: url, parameter: "file")
      return (.file(url), contentType)
    }
  }

  /// Where in the value the encoder gave up, and why.
  private static func explanation(of error: any Error) -> String {
    guard case EncodingError.invalidValue(let value, let context) = error else { return "\(error)" }
    let path = context.codingPath.map(\.stringValue).joined(separator: ".")
    return "\(path.isEmpty ? "the value" : path) (\(value)) can't be encoded: \(context.debugDescription)"
  }
}

enum FileParameter {
  /// The size of a regular, readable file.
  static func length(of url: URL, parameter: String) throws(RequestError) -> Int64 {
    guard url.isFileURL else { throw .invalidParameters("parameter \"\(parameter)\": \(AddressText.shown(url)) is not the URL of a file") }
    let path = url.path
    // `URL(string: "file:name")`: Foundation on Linux stops the process.
    guard path.hasPrefix("/") else {
      throw .invalidParameters("parameter \"\(parameter)\": \(AddressText.shown(url)) has no absolute path; use URL(fileURLWithPath:)")
    }
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path) else {
      throw .invalidParameters("parameter \"\(parameter)\": there is no file \(path)")
    }
    let resolved =
      attributes[.type] as? FileAttributeType == .typeSymbolicLink
      ? try? FileManager.default.attributesOfItem(atPath: url.resolvingSymlinksInPath().path) : attributes
    guard let resolved, resolved[.type] as? FileAttributeType == .typeRegular, let size = resolved[.size] as? NSNumber else {
      throw .invalidParameters("parameter \"\(parameter)\": \(path) is not a regular file")
    }
    guard FileManager.default.isReadableFile(atPath: path) else {
      throw .invalidParameters("parameter \"\(parameter)\": the file \(path) may not be read")
    }
    return size.int64Value
  }
}
