import Foundation

/// A journal as a file: who may make one, and how lines are added.
enum JournalFile {
  /// Adds a line, or several, in one `write(2)`.
  /// - Parameter descriptor: in append mode.
  /// - Returns: the error, or nil. After an error nothing, or a part, has been added.
  static func append(_ lines: [UInt8], to descriptor: Int32) -> Int32? {
    // After a part of a line that did not fit, whoever wrote it, a new line begins.
    let lines = endsInALine(descriptor) ? lines : [UInt8(ascii: "\n")] + lines
    return RawFile.writeAll(lines, to: descriptor)
  }

  private static func endsInALine(_ descriptor: Int32) -> Bool {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size > 0 else { return true }
    var last: UInt8 = 0
    return pread(descriptor, &last, 1, status.st_size - 1) != 1 || last == UInt8(ascii: "\n")
  }

  static func size(of descriptor: Int32) -> Int {
    var status = stat()
    return fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
  }

  /// The file that a symbolic link stands for; else the same. One journal has one lease, whatever it is called by.
  static func target(of path: String) -> String {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFLNK, let real = realpath(path, nil) else { return path }
    defer { free(real) }
    return String(cString: real)
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
  /// has the lease.
  static func create(_ path: String, _ lines: [UInt8]) throws(UsageError) -> Int32 {
    let path = target(of: path)
    let draft = path + ".new"
    let descriptor = Foundation.open(draft, O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
    guard descriptor >= 0 else { throw UsageError("--journal: can't create \(path): \(RawFile.message(errno))") }
    var error = RawFile.writeAll(lines, to: descriptor)
    if error == nil, fsync(descriptor) != 0, errno != EINVAL { error = errno }
    if error == nil, rename(draft, path) != 0 { error = errno }
    guard let error else { return descriptor }
    close(descriptor)
    unlink(draft)
    throw UsageError("--journal: can't create \(path): \(RawFile.message(error))")
  }

  /// Sets room aside behind the end, so that lines that are to come will fit.
  /// - Returns: the error if there is no room; nil also where the file system knows no such thing.
  static func reserve(_ count: Int, of descriptor: Int32) -> Int32? {
    let size = size(of: descriptor)
    // The file system does not ask for the limit on the length of files when it only sets aside.
    guard size + count <= FileLengthLimit.current else { return EFBIG }
    #if os(Linux)
      guard let function = allocateFunction else { return nil }
      let keepSize: Int32 = 1
      while function(descriptor, keepSize, off_t(size), off_t(count)) != 0 {
        let error = errno
        if error == EINTR { continue }
        return [ENOSPC, EDQUOT, EFBIG].contains(error) ? error : nil
      }
    #endif
    return nil
  }

  /// Gives back what was set aside and not used.
  static func giveBackReserve(of descriptor: Int32) { _ = ftruncate(descriptor, off_t(size(of: descriptor))) }

  #if os(Linux)
    private typealias Allocate = @convention(c) (Int32, Int32, off_t, off_t) -> Int32

    /// Looked up, because the header hides it from Swift.
    private static let allocateFunction = dlsym(nil, "fallocate").map { unsafeBitCast($0, to: Allocate.self) }
  #endif
}
