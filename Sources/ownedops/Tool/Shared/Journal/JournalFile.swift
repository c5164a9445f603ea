import Foundation

/// A journal as a file: who may make one, and how lines are added.
enum JournalFile {
  typealias Write = (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int

  /// Adds a line, or several, in one `write(2)`. Where not all of it fitted, and there is room again, the line that was cut off comes once
  /// more, from its beginning. Another process may have written behind the part.
  /// - Parameters:
  ///   - descriptor: in append mode.
  ///   - write: as `write(2)`.
  /// - Returns: the error, or nil. After an error nothing, or a part, has been added.
  static func append(
    _ lines: [UInt8], to descriptor: Int32, write: Write = { Foundation.write($0, $1.baseAddress, $1.count) }
  ) -> Int32? {
    let newline = UInt8(ascii: "\n")
    var rest = lines[...]
    var cuts = 0
    while !rest.isEmpty {
      // After a part of a line that did not fit, whoever wrote it, a new line begins.
      let bytes = endsInALine(descriptor) ? Array(rest) : [newline] + rest
      let count = bytes.withUnsafeBytes { write(descriptor, $0) }
      if count == bytes.count { return nil }
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return errno }
      // Not for ever, where lines never fit.
      cuts += 1
      guard cuts < mostCuts else { return ENOSPC }
      let written = rest.prefix(max(0, count - (bytes.count - rest.count)))
      if let last = written.lastIndex(of: newline) {
        rest = rest[(last + 1)...]
        cuts = 0
      }
    }
    return nil
  }

  private static let mostCuts = 10

  private static func endsInALine(_ descriptor: Int32) -> Bool {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size > 0 else { return true }
    var last: UInt8 = 0
    return pread(descriptor, &last, 1, status.st_size - 1) != 1 || last == UInt8(ascii: "\n")
  }

  /// Whether it has no name any more.
  static func isRemoved(_ descriptor: Int32) -> Bool {
    var status = stat()
    return fstat(descriptor, &status) == 0 && status.st_nlink == 0
  }

  static func size(of descriptor: Int32) -> Int {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
  }

  /// The file that a symbolic link stands for, also if it is not there yet; else the same. One journal has one lease, whatever it is
  /// called by.
  static func target(of path: String) -> String {
    var path = path
    // As many as the system follows.
    for _ in 0..<40 {
      var status = stat()
      guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFLNK else { break }
      if let real = realpath(path, nil) {
        defer { free(real) }
        return String(cString: real)
      }
      guard let next = try? FileManager.default.destinationOfSymbolicLink(atPath: path), !next.isEmpty else { break }
      let slash = path.utf8.lastIndex(of: UInt8(ascii: "/"))
      path = next.utf8.first == UInt8(ascii: "/") ? next : (slash.map { String(path[...$0]) } ?? "") + next
    }
    return path
  }

  /// - Returns: the error, or nil.
  static func synchronize(_ descriptor: Int32) -> Int32? {
    guard fsync(descriptor) != 0 else { return nil }
    // Where there is nothing to be synchronized.
    return [EINVAL, EROFS].contains(errno) ? nil : errno
  }

  /// Opens a journal that is there, to be read and added to. One with a second name is refused: each name has a lease of its own.
  /// - Returns: nil if there is none.
  static func open(_ path: String) throws(UsageError) -> Int32? {
    let descriptor = Foundation.open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      switch errno {
      case ENOENT where !path.isEmpty: return nil
      case EISDIR: throw UsageError("--journal: \(path) is a directory; give a file")
      default: throw UsageError("--journal: can't write \(path): \(RawFile.message(errno))")
      }
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      close(descriptor)
      throw UsageError("--journal: \(path) is no regular file; give one, or a name that is not taken")
    }
    guard status.st_nlink < 2 else {
      close(descriptor)
      throw UsageError(
        "--journal: \(path) is one of \(Shown.count(Int(status.st_nlink))) names of the same file, so two runners could be at work on it; "
          + "remove the others, or copy it")
    }
    return descriptor
  }

  /// Makes a journal with these lines, all or nothing, and opens it to be added to. An empty file of that name is replaced. Only for who
  /// has the lease, which a take-over may have left two with: so the draft is locked while it is written. A draft that is there, as after a
  /// runner's death, may be written anew. That is done only if it is the beginning of a journal and nobody has locked it.
  static func create(_ path: String, _ lines: [UInt8]) throws(UsageError) -> Int32 {
    let path = target(of: path)
    let draft = path + ".new"
    let descriptor = try openDraft(draft, of: path)
    var error = RawFile.writeAll(lines, to: descriptor)
    if error == nil, fsync(descriptor) != 0, errno != EINVAL { error = errno }
    if error == nil, rename(draft, path) != 0 { error = errno }
    guard let error else {
      flock(descriptor, LOCK_UN)
      return descriptor
    }
    unlink(draft)
    close(descriptor)
    throw UsageError("--journal: can't create \(path): \(RawFile.message(error))")
  }

  /// Opens a draft that is empty, and locks it.
  private static func openDraft(_ draft: String, of path: String) throws(UsageError) -> Int32 {
    let new = Foundation.open(draft, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
    if new >= 0 {
      // Where there are no locks it goes on without: it is ours because we have made it.
      if flock(new, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK { return new }
      close(new)
    } else if errno != EEXIST {
      throw UsageError("--journal: can't create \(path): \(RawFile.message(errno))")
    } else {
      let old = Foundation.open(draft, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
      if old >= 0 {
        if flock(old, LOCK_EX | LOCK_NB) == 0, isBeginning(old, draft), ftruncate(old, 0) == 0 { return old }
        close(old)
      }
    }
    throw UsageError(
      "--journal: can't create \(path): \(draft), as which it is begun, is there already; remove it if no other runner is at work")
  }

  /// Whether this is the file of that name, and holds what may be a part of a journal's first line.
  private static func isBeginning(_ descriptor: Int32, _ path: String) -> Bool {
    var opened = stat()
    var named = stat()
    guard fstat(descriptor, &opened) == 0, lstat(path, &named) == 0, FileIdentity(opened) == FileIdentity(named) else { return false }
    guard opened.st_mode & S_IFMT == S_IFREG, opened.st_nlink == 1 else { return false }
    let mark = Array(#"{"event":"journal""#.utf8)
    var bytes = [UInt8](repeating: 0, count: mark.count)
    let count = bytes.withUnsafeMutableBytes { RawFile.fill($0, from: descriptor, at: 0) }
    return count >= 0 && bytes[..<count].elementsEqual(mark[..<count])
  }

  /// Sets room aside behind the end, so that lines that are to come will fit.
  /// - Returns: the error if there is no room; nil also where the file system knows no such thing.
  static func reserve(_ count: Int, of descriptor: Int32) -> Int32? {
    let size = size(of: descriptor)
    // The file system does not ask for the limit on the length of files when it only sets aside.
    guard size + count <= FileLengthLimit.current else { return EFBIG }
    guard let error = System.setAside(count, behind: size, of: descriptor) else { return nil }
    return [ENOSPC, EDQUOT, EFBIG].contains(error) ? error : nil
  }

  /// Gives back what was set aside and not used.
  static func giveBackReserve(of descriptor: Int32) { _ = ftruncate(descriptor, off_t(size(of: descriptor))) }
}
