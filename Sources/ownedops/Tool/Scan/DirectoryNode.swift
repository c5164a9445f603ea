import Foundation
import OwnedOperations

/// A directory of the scan: an owner of the work on it. Its lifetime is a child of the directory above's, so ending the topmost ends all.
///
/// The node is filled by its listing, and read by work that comes after it. Names are bytes, one after the other in one array.
final class DirectoryNode: OperationOwner, @unchecked Sendable {  // written by one job; others follow it through the queue; see `token`
  struct File {
    let nameStart: UInt32
    let nameLength: UInt16
    /// Has other names, or may have been given twice.
    let isLinked: Bool
    /// Its device is not the directory's.
    let isForeign: Bool
    let size: Int64
    let inode: UInt64
  }

  /// Where one job puts together what a directory holds, before the node gets it, in arrays that are as large as they need to be.
  struct Contents {
    fileprivate var files: [File] = []
    fileprivate var names: [UInt8] = []

    mutating func add(
      _ name: UnsafeRawBufferPointer, _ status: stat, to node: DirectoryNode, isLinked: Bool
    ) {
      let identity = FileIdentity(status)
      let isForeign = identity.device != node.device
      let start = UInt32(truncatingIfNeeded: names.count)
      if isForeign { node.foreignDevices[start] = identity.device }
      files.append(
        File(
          nameStart: start, nameLength: UInt16(truncatingIfNeeded: name.count), isLinked: isLinked, isForeign: isForeign,
          size: Int64(status.st_size), inode: identity.inode))
      names += name
    }

    /// Empty afterwards.
    mutating func move(to node: DirectoryNode) {
      node.files = files.withUnsafeBufferPointer { Array($0) }
      node.names = names.withUnsafeBufferPointer { Array($0) }
      files.removeAll(keepingCapacity: true)
      names.removeAll(keepingCapacity: true)
    }
  }

  /// For a root, as the user wrote it; empty for the one of files that are given without a directory.
  let name: [UInt8]
  /// All nodes live as long as the scan does, which holds the roots.
  private let parentReference: Unmanaged<DirectoryNode>?
  let depth: Int
  /// The one right below the root to which it belongs; nil for a root.
  private let topReference: Unmanaged<DirectoryNode>?
  /// Made when the first work belongs to the directory; many never have any. Touched under ``tokens``.
  private var token: OwnerLifetime.Token?
  private static let tokens = Guarded(())

  var index = 0
  var device: UInt64 = 0
  fileprivate(set) var files: [File] = []
  fileprivate(set) var names: [UInt8] = []
  /// Of files, by the start of their names.
  fileprivate var foreignDevices: [UInt32: UInt64] = [:]
  var subdirectories: [DirectoryNode] = []
  var totals = DirectoryTotals()
  /// Names that are to be looked at, in place of all that the directory holds; nil for a directory that is to be listed.
  private(set) var givenNames: [[UInt8]]?

  init(root name: [UInt8], lifetime: OwnerLifetime, givenNames: [[UInt8]]? = nil) {
    self.name = name
    self.givenNames = givenNames
    parentReference = nil
    depth = 0
    topReference = nil
    token = OwnerLifetime.Token(parent: lifetime)
  }

  init(_ name: [UInt8], in parent: DirectoryNode) {
    self.name = name
    parentReference = .passUnretained(parent)
    depth = parent.depth + 1
    topReference = parent.topReference ?? (parent.isRoot ? nil : parentReference)
    device = parent.device
  }

  deinit {
    // One after the other, not one inside the other: trees may be deeper than a stack.
    var rest = subdirectories
    subdirectories = []
    while var node = rest.popLast() {
      guard isKnownUniquelyReferenced(&node) else { continue }
      rest += node.subdirectories
      node.subdirectories = []
    }
  }

  /// Linear in the directories above that have none yet.
  var lifetimeToken: OwnerLifetime.Token {
    Self.tokens.withLock { _ in
      if let token { return token }
      var line = [self]
      var above = parent
      while let node = above, node.token == nil {
        line.append(node)
        above = node.parent
      }
      // Roots have one.
      var last = above?.token ?? OwnerLifetime.Token()
      for node in line.reversed() {
        last = OwnerLifetime.Token(parent: last.lifetime)
        node.token = last
      }
      return last
    }
  }

  var parent: DirectoryNode? { parentReference.map { $0.takeUnretainedValue() } }
  /// Right below the root, or the root itself.
  var top: DirectoryNode { topReference.map { $0.takeUnretainedValue() } ?? self }
  var topName: [UInt8] { top.name }
  var isRoot: Bool { parentReference == nil }

  /// The one that holds both. Linear in the depth.
  /// - Returns: nil if they belong to different roots.
  func commonAncestor(with other: DirectoryNode) -> DirectoryNode? {
    var left: DirectoryNode? = self
    var right: DirectoryNode? = other
    while let first = left, let second = right, first !== second {
      if first.depth >= second.depth { left = first.parent }
      if second.depth >= first.depth { right = second.parent }
    }
    return left != nil && right != nil ? left : nil
  }

  func name(of file: File) -> [UInt8] {
    Array(names[Int(file.nameStart)..<(Int(file.nameStart) + Int(file.nameLength))])
  }

  func identity(of file: File) -> FileIdentity {
    FileIdentity(device: file.isForeign ? foreignDevices[file.nameStart] ?? device : device, inode: file.inode)
  }

  /// Adds the path of a file to a buffer. For directories that are not deep: recurses.
  func addPath(of file: File, to buffer: inout [UInt8]) {
    addPath(to: &buffer)
    if let last = buffer.last, last != UInt8(ascii: "/") { buffer.append(UInt8(ascii: "/")) }
    buffer += names[Int(file.nameStart)..<(Int(file.nameStart) + Int(file.nameLength))]
  }

  private func addPath(to buffer: inout [UInt8]) {
    parent?.addPath(to: &buffer)
    if let last = buffer.last, last != UInt8(ascii: "/") { buffer.append(UInt8(ascii: "/")) }
    buffer += name
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
}

/// What a summary adds up: the directory and everything below.
struct DirectoryTotals: Sendable {
  var files = 0
  var bytes = 0
  var duplicates = 0
  var duplicateBytes = 0

  mutating func add(_ other: DirectoryTotals) {
    files += other.files
    bytes.addSaturating(other.bytes)
    duplicates += other.duplicates
    duplicateBytes.addSaturating(other.duplicateBytes)
  }
}
