import Foundation

/// Opens directories however deep they are, at a cost that does not grow with the depth.
///
/// Rules:
/// - Every directory whose depth is a multiple of ``spacing`` is a landing. Some landings, those used last, are kept open.
/// - Others are opened from the nearest landing above. If that is not open, it is opened from the one above it.
/// - A landing that is in use stays open until its user has done, kept or not.
final class OpenDirectories: Sendable {
  /// A descriptor, closed with the last reference.
  private final class Landing: Sendable {
    let descriptor: Int32
    init(_ descriptor: Int32) { self.descriptor = descriptor }
    deinit { close(descriptor) }
  }

  private struct State {
    var kept: [ObjectIdentifier: (landing: Landing, lastUse: Int)] = [:]
    var uses = 0
  }

  private static let spacing = 32
  private static let longestPath = 4000

  private let most: Int
  private let state = Guarded(State())

  init() {
    // A quarter of what may be open, and not so many that it would be felt elsewhere.
    most = min(128, max(2, DescriptorLimit.current / 4))
  }

  /// - Returns: a descriptor, which is the caller's, or the negated error.
  func open(_ node: DirectoryNode) -> Int32 {
    guard node.depth > Self.spacing else { return Self.open(names(from: nil, to: node), at: AT_FDCWD, followsLinks: node.isRoot) }
    // From the lowest open landing down, one landing after the other.
    var wanted: [DirectoryNode] = []
    var above = node.parent
    var start: Landing?
    while let current = above {
      if current.depth % Self.spacing == 0 {
        start = kept(current)
        if start != nil { break }
        wanted.append(current)
      }
      above = current.parent
    }
    var base = above
    for landing in wanted.reversed() {
      let descriptor = Self.open(names(from: base, to: landing), at: start?.descriptor ?? AT_FDCWD, followsLinks: landing.isRoot)
      guard descriptor >= 0 else { return descriptor }
      let opened = Landing(descriptor)
      keep(opened, landing)
      start = opened
      base = landing
    }
    defer { withExtendedLifetime(start) {} }
    return Self.open(names(from: base, to: node), at: start?.descriptor ?? AT_FDCWD, followsLinks: false)
  }

  /// Opens a file for reading, without blocking: a pipe may have taken its place. Never follows a link in its place.
  /// - Parameter buffer: scratch, for the path.
  /// - Returns: a descriptor, which is the caller's, or the negated error.
  func openFile(_ file: DirectoryNode.File, in node: DirectoryNode, _ buffer: inout [UInt8]) -> Int32 {
    let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
    if node.depth <= Self.spacing {
      buffer.removeAll(keepingCapacity: true)
      node.addPath(of: file, to: &buffer)
      if buffer.count < Self.longestPath {
        buffer.append(0)
        let descriptor = buffer.withUnsafeBytes { bytes in
          // With a zero in it, it is not empty.
          openat(AT_FDCWD, bytes.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: CChar.self), flags)
        }
        return descriptor >= 0 ? descriptor : -errno
      }
    }
    let directory = open(node)
    guard directory >= 0 else { return directory }
    defer { close(directory) }
    let descriptor = node.name(of: file).withCString { openat(directory, $0, flags) }
    return descriptor >= 0 ? descriptor : -errno
  }

  private func kept(_ node: DirectoryNode) -> Landing? {
    state.withLock { state in
      let key = ObjectIdentifier(node)
      guard let landing = state.kept[key]?.landing else { return nil }
      state.uses += 1
      state.kept[key]?.lastUse = state.uses
      return landing
    }
  }

  private func keep(_ landing: Landing, _ node: DirectoryNode) {
    // Closed when the lock has been given back.
    var dropped: Landing?
    state.withLock { state in
      if state.kept.count >= most, let oldest = state.kept.min(by: { $0.value.lastUse < $1.value.lastUse }) {
        dropped = state.kept.removeValue(forKey: oldest.key)?.landing
      }
      state.uses += 1
      state.kept[ObjectIdentifier(node)] = (landing, state.uses)
    }
    withExtendedLifetime(dropped) {}
  }

  /// Of the directories below `base`, or of all from the root on, down to the node.
  private func names(from base: DirectoryNode?, to node: DirectoryNode) -> [[UInt8]] {
    var names: [[UInt8]] = []
    var current: DirectoryNode? = node
    while let directory = current, directory !== base {
      names.append(directory.name)
      current = directory.parent
    }
    return names.reversed()
  }

  /// In pieces where the system would refuse the whole.
  private static func open(_ names: [[UInt8]], at start: Int32, followsLinks: Bool) -> Int32 {
    var descriptor = start
    defer { if descriptor != start { close(descriptor) } }
    var piece: [UInt8] = []
    for name in names {
      if !piece.isEmpty, piece.count + name.count + 1 >= longestPath {
        let next = open(piece, at: descriptor, followsLinks: true)
        if descriptor != start { close(descriptor) }
        descriptor = start
        guard next >= 0 else { return next }
        descriptor = next
        piece = name
      } else {
        piece = DirectoryNode.joined(piece.isEmpty ? [name] : [piece, name])
      }
    }
    return open(piece, at: descriptor, followsLinks: followsLinks)
  }

  private static func open(_ path: [UInt8], at directory: Int32, followsLinks: Bool) -> Int32 {
    let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (followsLinks ? 0 : O_NOFOLLOW)
    let descriptor = path.withCString { openat(directory, $0, flags) }
    return descriptor >= 0 ? descriptor : -errno
  }
}
