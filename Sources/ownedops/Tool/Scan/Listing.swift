import Foundation

/// Reads one directory into its node.
struct Listing {
  let settings: Settings
  let census: Census
  let directories: OpenDirectories

  struct Settings: Sendable {
    var exclusions: [Exclusion] = []
    var staysOnDevice = false
    /// Directories that are listed on their own: each root, by identity.
    var roots: Set<FileIdentity> = []
    /// Files have been given by name, too: any may be met twice, whatever its number of names.
    var mayMeetFilesTwice = false
  }

  /// - Parameters:
  ///   - contents: empty, before and after.
  ///   - shouldStop: asked once in a while.
  /// - Returns: the directories below, to be listed.
  func list(_ node: DirectoryNode, _ contents: inout DirectoryNode.Contents, shouldStop: () -> Bool) -> [DirectoryNode] {
    var tally = Census.Tally()
    defer {
      contents.move(to: node)
      census.add(tally)
    }
    if let names = node.givenNames {
      for (number, name) in names.enumerated() {
        if number % 1024 == 0, shouldStop() { break }
        addGiven(name, to: node, &contents, &tally)
      }
      return []
    }
    let descriptor = directories.open(node)
    guard descriptor >= 0 else {
      census.note(error: -descriptor, at: node.path, isDirectory: true)
      return []
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, enter(node, status) else {
      close(descriptor)
      return []
    }
    guard let stream = fdopendir(descriptor) else {
      census.note(error: errno, at: node.path, isDirectory: true)
      close(descriptor)
      return []
    }
    defer { closedir(stream) }
    tally.directories = 1
    var entries = 0
    while true {
      errno = 0
      guard let entry = readdir(stream) else {
        if errno != 0 { census.note(error: errno, at: node.path, isDirectory: true) }
        break
      }
      entries += 1
      if entries % 1024 == 0, shouldStop() { break }
      add(entry, to: node, descriptor, &contents, &tally)
    }
    return node.subdirectories
  }

  /// One that was named, not found.
  private func addGiven(_ name: [UInt8], to node: DirectoryNode, _ contents: inout DirectoryNode.Contents, _ tally: inout Census.Tally) {
    let path = node.path(of: name)
    var status = stat()
    guard path.withCString({ lstat($0, &status) }) == 0 else {
      census.note(error: errno, at: path, isDirectory: errno == ENOTDIR)
      return
    }
    if isExcluded(name, in: node, isDirectory: false) {
      tally.excluded += 1
      return
    }
    name.withUnsafeBytes { addFile($0, status, to: node, &contents, &tally) }
  }

  /// Whether the directory is this listing's business. It is not if another root stands for it, it is listed already under another name (a
  /// bind mount), or it is on another device.
  private func enter(_ node: DirectoryNode, _ status: stat) -> Bool {
    let identity = FileIdentity(status)
    if node.isRoot {
      node.device = identity.device
    } else {
      if settings.roots.contains(identity) { return false }
      if settings.staysOnDevice, identity.device != node.device { return false }
      node.device = identity.device
    }
    return census.enter(identity)
  }

  private func add(
    _ entry: UnsafeMutablePointer<dirent>, to node: DirectoryNode, _ descriptor: Int32, _ contents: inout DirectoryNode.Contents,
    _ tally: inout Census.Tally
  ) {
    let raw = UnsafeRawPointer(entry) + (MemoryLayout<dirent>.offset(of: \.d_name) ?? 0)
    let chars = raw.assumingMemoryBound(to: CChar.self)
    let name = UnsafeRawBufferPointer(start: raw, count: strlen(chars))
    guard !Self.isDots(name) else { return }
    let kind = Int32(entry.pointee.d_type)
    if kind == Int32(DT_DIR) {
      addDirectory(Array(name), to: node, &tally)
      return
    }
    if !settings.exclusions.isEmpty, isExcluded(Array(name), in: node, isDirectory: false) {
      tally.excluded += 1
      return
    }
    if kind == Int32(DT_LNK) {
      tally.symbolicLinks += 1
      return
    }
    var status = stat()
    guard fstatat(descriptor, chars, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
      census.note(error: errno, at: node.path(of: Array(name)), isDirectory: false)
      return
    }
    if status.st_mode & S_IFMT == S_IFDIR {
      addDirectory(Array(name), to: node, &tally)
    } else {
      addFile(name, status, to: node, &contents, &tally)
    }
  }

  private func addFile(
    _ name: UnsafeRawBufferPointer, _ status: stat, to node: DirectoryNode, _ contents: inout DirectoryNode.Contents,
    _ tally: inout Census.Tally
  ) {
    switch status.st_mode & S_IFMT {
    case S_IFREG:
      tally.files += 1
      tally.bytes.addSaturating(Int(status.st_size))
      if status.st_size == 0 { tally.emptyFiles += 1 }
      contents.add(name, status, to: node, isLinked: settings.mayMeetFilesTwice || status.st_nlink > 1)
    case S_IFLNK: tally.symbolicLinks += 1
    default: tally.specialFiles += 1
    }
  }

  /// `.` and `..`.
  private static func isDots(_ name: UnsafeRawBufferPointer) -> Bool {
    name.count <= 2 && name.allSatisfy { $0 == UInt8(ascii: ".") }
  }

  private func addDirectory(_ name: [UInt8], to node: DirectoryNode, _ tally: inout Census.Tally) {
    guard !isExcluded(name, in: node, isDirectory: true) else {
      tally.excluded += 1
      return
    }
    node.subdirectories.append(DirectoryNode(name, in: node))
  }

  private func isExcluded(_ name: [UInt8], in node: DirectoryNode, isDirectory: Bool) -> Bool {
    guard !settings.exclusions.isEmpty else { return false }
    return settings.exclusions.contains { $0.matches(name, in: node, isDirectory: isDirectory) }
  }
}

/// A shell pattern. Without a slash it is held against names, with one against paths below the root. With a slash at the end it is for
/// directories alone.
struct Exclusion: Sendable {
  private let pattern: [UInt8]
  private let isPath: Bool
  /// Of its paths: no wildcard stands for one.
  private let slashes: Int
  private let isForDirectories: Bool

  init(_ text: [UInt8]) throws(UsageError) {
    var pattern = text
    isForDirectories = pattern.last == UInt8(ascii: "/")
    while pattern.last == UInt8(ascii: "/") { pattern.removeLast() }
    isPath = pattern.contains(UInt8(ascii: "/"))
    if pattern.starts(with: Array("./".utf8)) { pattern.removeFirst(2) }
    if pattern.first == UInt8(ascii: "/") { pattern.removeFirst() }
    guard !pattern.isEmpty else {
      throw UsageError("--exclude: \"\(text.escapedName)\" is no pattern; write one such as '*.o' or 'build/'")
    }
    self.pattern = pattern
    slashes = pattern.count { $0 == UInt8(ascii: "/") }
  }

  func matches(_ name: [UInt8], in node: DirectoryNode, isDirectory: Bool) -> Bool {
    guard isDirectory || !isForDirectories else { return false }
    guard isPath else { return matches(name) }
    // Others need not be put together, however deep they are.
    return node.depth == slashes && matches(node.relativePath(of: name))
  }

  func matches(_ subject: [UInt8]) -> Bool {
    pattern.withCString { pattern in subject.withCString { fnmatch(pattern, $0, FNM_PATHNAME) == 0 } }
  }
}
