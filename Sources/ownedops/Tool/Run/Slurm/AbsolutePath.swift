import Foundation

/// Paths that mean the same from any directory.
enum AbsolutePath {
  static var current: String { FileManager.default.currentDirectoryPath }

  static func of(_ path: String) -> String { path.hasPrefix("/") ? path : current + "/" + path }
}
