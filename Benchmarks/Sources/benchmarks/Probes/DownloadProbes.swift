import Foundation
import OwnedOperations
import OwnedRequests

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// What a process that downloads a file spent on it.
struct DownloadCost: Codable {
  var seconds: Double
  /// The most that was resident at once, in bytes.
  var peakMemory: Double
}

extension Probe {
  /// Each downloads the file `large` of the server that the environment names, checks that it has so many bytes, and prints a
  /// `DownloadCost`.
  static var downloads: [Probe] {
    [
      Probe("download-ours") { count in
        try reportDownload(of: count) { url, target in
          let client = RequestClient()
          let isOver = DispatchSemaphore(value: 0)
          let operation = client.download(Request(.get, url.absoluteString), to: target, lifetime: .process)
          Task {
            await operation.finished()
            isOver.signal()
          }
          isOver.wait()
        }
      },
      Probe("download-bare") { count in
        try reportDownload(of: count) { url, target in
          let isOver = DispatchSemaphore(value: 0)
          URLSession.shared.downloadTask(with: url) { file, _, _ in
            if let file { try? FileManager.default.moveItem(at: file, to: target) }
            isOver.signal()
          }.resume()
          isOver.wait()
        }
      },
    ]
  }

  private static func reportDownload(of size: Int, _ download: (URL, URL) throws -> Void) throws {
    guard let base = ProcessInfo.processInfo.environment[Nginx.variable], let url = URL(string: "\(base)/large") else {
      throw MissingRequirement(description: "needs the address of a server in \(Nginx.variable)")
    }
    let target = FileManager.default.temporaryDirectory.appendingPathComponent("benchmarks-download-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: target) }
    let time = try nanoseconds { try download(url, target) }
    let attributes = try FileManager.default.attributesOfItem(atPath: target.path)
    try WrongResult.check((attributes[.size] as? NSNumber)?.intValue ?? -1, is: size, "bytes of \(target.path)")
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") }),
      let peak = Double(line.filter(\.isNumber))
    else { throw MissingRequirement(description: "peak memory is measured with /proc/self/status, which is missing") }
    FileHandle.standardOutput.write(try JSONEncoder().encode(DownloadCost(seconds: time / 1e9, peakMemory: peak * 1024)))
  }
}
