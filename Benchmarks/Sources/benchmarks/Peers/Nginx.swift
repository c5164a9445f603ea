import Foundation

/// A web server on loopback, with files of its own.
final class Nginx {
  /// Where a task in a process of its own finds it.
  static let variable = "BENCHMARKS_NGINX"

  let base: String
  private let directory: URL
  private let process = Process()

  /// - Parameter large: the size of the file `large`.
  init(large: Int) throws {
    guard let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].first(where: FileManager.default.isExecutableFile(atPath:)) else {
      throw MissingRequirement(description: "needs nginx (Debian's nginx-light)")
    }
    directory = FileManager.default.temporaryDirectory.appendingPathComponent("benchmarks-nginx-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    try Data(repeating: UInt8(ascii: "x"), count: 1000).write(to: directory.appendingPathComponent("small"))
    let file = directory.appendingPathComponent("large")
    try Data().write(to: file)
    guard truncate(file.path, off_t(large)) == 0 else { throw WrongResult(description: "can't make a file of \(large) bytes") }
    let port = try Self.freePort()
    base = "http://127.0.0.1:\(port)"
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(directory.path)/\($0);" }
    let configuration = """
      daemon off; pid \(directory.path)/pid; error_log \(directory.path)/error; worker_processes 1;
      events { worker_connections 4096; }
      http {
        \(places.joined(separator: " "))
        access_log off; keepalive_requests 10000000;
        server {
          listen 127.0.0.1:\(port) backlog=4096; root \(directory.path);
          location /slow { alias \(directory.path)/large; limit_rate 1000; }
        }
      }
      """
    try Data(configuration.utf8).write(to: directory.appendingPathComponent("nginx.conf"))
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = ["-p", directory.path, "-c", directory.appendingPathComponent("nginx.conf").path]
    process.standardError = FileHandle.nullDevice
    try ChildProcess.start(process)
    try waitUntilReady(port)
    setenv(Self.variable, base, 1)
  }

  /// Gives the address of the server that the environment names, or else of one that lives as long as the body runs.
  static func named(_ body: (URL) throws -> Void) throws {
    if let text = ProcessInfo.processInfo.environment[variable] {
      guard let base = URL(string: text), base.host != nil else {
        throw MissingRequirement(description: "\(variable) is \"\(text)\"; it has to be an address such as http://127.0.0.1:8080")
      }
      return try body(base)
    }
    let server = try Nginx(large: 0)
    try body(server.url(""))
    withExtendedLifetime(server) {}
  }

  deinit {
    process.terminate()
    ChildProcess.wait(for: process)
    try? FileManager.default.removeItem(at: directory)
  }

  func url(_ name: String) -> URL {
    // The base is one that was made here.
    URL(string: "\(base)/\(name)")!
  }

  private func waitUntilReady(_ port: UInt16) throws {
    for _ in 0..<500 {
      let socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      defer { close(socket) }
      if Self.call(Foundation.connect, socket, port) == 0 { return }
      guard process.isRunning else { break }
      usleep(10_000)
    }
    let log = (try? String(contentsOf: directory.appendingPathComponent("error"), encoding: .utf8)) ?? ""
    throw MissingRequirement(description: "nginx does not start here: \(log)")
  }

  private static func freePort() throws -> UInt16 {
    let socket = Foundation.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(socket) }
    guard call(Foundation.bind, socket, 0) == 0 else { throw MissingRequirement(description: "no port is free on loopback") }
    var address = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    _ = withUnsafeMutableBytes(of: &address) { getsockname(socket, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), &length) }
    return UInt16(bigEndian: address.sin_port)
  }

  private static func call(_ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ socket: Int32, _ port: UInt16) -> Int32 {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    return withUnsafeBytes(of: &address) {
      function(socket, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
}
