import Foundation
import OwnedOperations

/// A directory of the scan: the owner of the work on it. Its lifetime is a child of the directory above's, so ending the topmost ends all.
///
/// The node is filled by its listing, and read by work that comes after it. Names are bytes, one after the other in one array.
final class DirectoryNode: OperationOwner, @unchecked Sendable {  // written by one job; others follow it through the queue
  struct File {
    let nameStart: UInt32
    let nameLength: UInt16
    /// Has other names: hard links.
    let isLinked: Bool
    let size: Int64
    let identity: FileIdentity
  }

  let lifetimeToken: OwnerLifetime.Token
  /// For a root, as the user wrote it.
  let name: [UInt8]
  /// All nodes live as long as the scan does, which holds them in one array.
  private let parentReference: Unmanaged<DirectoryNode>?
  let depth: Int

  var index = 0
  var device: UInt64 = 0
  var files: [File] = []
  var names: [UInt8] = []
  var subdirectories: [DirectoryNode] = []
  var totals = DirectoryTotals()

  init(root name: [UInt8], lifetime: OwnerLifetime) {
    self.name = name
    parentReference = nil
    depth = 0
    lifetimeToken = OwnerLifetime.Token(parent: lifetime)
  }

  init(_ name: [UInt8], in parent: DirectoryNode) {
    self.name = name
    parentReference = .passUnretained(parent)
    depth = parent.depth + 1
    device = parent.device
    lifetimeToken = OwnerLifetime.Token(parent: parent.lifetime)
  }

  var parent: DirectoryNode? { parentReference.map { $0.takeUnretainedValue() } }
  var isRoot: Bool { parentReference == nil }

  func addFile(_ name: [UInt8], size: Int64, isLinked: Bool, identity: FileIdentity) {
    files.append(
      File(
        nameStart: UInt32(truncatingIfNeeded: names.count), nameLength: UInt16(truncatingIfNeeded: name.count), isLinked: isLinked,
        size: size,
        identity: identity))
    names += name
  }

  func name(of file: File) -> [UInt8] {
    Array(names[Int(file.nameStart)..<(Int(file.nameStart) + Int(file.nameLength))])
  }

  /// From the root down. Linear in the depth.
  var line: [DirectoryNode] {
    var line = [self]
    line.reserveCapacity(depth + 1)
    while let parent = line[line.count - 1].parent { line.append(parent) }
    return line.reversed()
  }

  var path: [UInt8] { Self.joined(line.map(\.name)) }

  func path(of name: [UInt8]) -> [UInt8] { Self.joined([path, name]) }

  /// Without the root, as patterns see it.
  func relativePath(of name: [UInt8]) -> [UInt8] { Self.joined(line.dropFirst().map(\.name) + [name]) }

  static func joined(_ components: [[UInt8]]) -> [UInt8] {
    var path: [UInt8] = []
    for component in components {
      if let last = path.last, last != UInt8(ascii: "/") { path.append(UInt8(ascii: "/")) }
      path += component
    }
    return path
  }

  // MARK: Opening

  private static let longestPath = 4000

  /// Opens the directory, however long its path is: in pieces where the system would refuse the whole.
  /// - Returns: a descriptor, or the negated error.
  func openDirectory() -> Int32 {
    let path = path
    if path.count < Self.longestPath {
      return Self.open(path, at: AT_FDCWD, followsLinks: isRoot)
    }
    var descriptor = AT_FDCWD
    var piece: [UInt8] = []
    for (place, node) in line.enumerated() {
      if place > 0, piece.count + node.name.count + 1 >= Self.longestPath {
        let next = Self.open(piece, at: descriptor, followsLinks: true)
        if descriptor != AT_FDCWD { close(descriptor) }
        guard next >= 0 else { return next }
        descriptor = next
        piece = node.name
      } else {
        piece = Self.joined(piece.isEmpty ? [node.name] : [piece, node.name])
      }
    }
    let result = Self.open(piece, at: descriptor, followsLinks: isRoot)
    if descriptor != AT_FDCWD { close(descriptor) }
    return result
  }

  private static func open(_ path: [UInt8], at directory: Int32, followsLinks: Bool) -> Int32 {
    let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (followsLinks ? 0 : O_NOFOLLOW)
    let descriptor = path.withCString { openat(directory, $0, flags) }
    return descriptor >= 0 ? descriptor : -errno
  }
}

/// The file itself, whatever its names.
struct FileIdentity: Hashable, Sendable {
  let device: UInt64
  let inode: UInt64

  init(_ status: stat) {
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(truncatingIfNeeded: status.st_ino)
  }
}

/// What a summary adds up: the directory and everything below.
struct DirectoryTotals: Sendable {
  var files = 0
  var bytes = 0
  var duplicates = 0
  var duplicateBytes = 0

  mutating func add(_ other: DirectoryTotals) {
    files += other.files
    bytes += other.bytes
    duplicates += other.duplicates
    duplicateBytes += other.duplicateBytes
  }
}

extension Array where Element == UInt8 {
  func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
    (self + [0]).withUnsafeBufferPointer { buffer in
      buffer.withMemoryRebound(to: CChar.self) { chars in
        // An array that is not empty has a base address.
        guard let base = chars.baseAddress else { return body("") }
        return body(base)
      }
    }
  }
}
