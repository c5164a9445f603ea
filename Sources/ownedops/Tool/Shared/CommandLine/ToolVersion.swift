/// The tool's version, as users and servers are told it.
enum ToolVersion {
  static let current = "1.0.0"
}
