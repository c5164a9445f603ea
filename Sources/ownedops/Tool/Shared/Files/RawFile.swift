import Foundation

/// Files by descriptor and by names in bytes. Foundation's file calls want names to be text.
enum RawFile {
  /// - Returns: the error, or nil.
  static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Int32? {
    bytes.withUnsafeBytes { writeAll($0, to: descriptor) }
  }

  static func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Int32? {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
      if count > 0 {
        rest = rest.dropFirst(count)
      } else if count < 0, errno == EAGAIN {
        var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = Foundation.poll(&poll, 1, -1)
      } else if count < 0, errno != EINTR {
        return errno
      }
    }
    return nil
  }

  /// Reads with an offset of its own, so that the position of the file doesn't matter.
  static func copyAll(from source: Int32, to destination: Int32, endsWithNewline: Bool = false) -> Int32? {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
    defer { buffer.deallocate() }
    var offset = 0
    var last = UInt8(ascii: "\n")
    while true {
      let count = pread(source, buffer.baseAddress, buffer.count, off_t(offset))
      if count < 0, errno == EINTR { continue }
      if count < 0 { return errno }
      if count == 0 { break }
      last = buffer[count - 1]
      if let error = writeAll(UnsafeRawBufferPointer(rebasing: buffer[..<count]), to: destination) { return error }
      offset += count
    }
    if endsWithNewline, last != UInt8(ascii: "\n") { return writeAll([UInt8(ascii: "\n")], to: destination) }
    return nil
  }

  /// Reads until the buffer is full or the file ends.
  /// - Returns: the bytes read, or the negated error.
  static func fill(_ buffer: UnsafeMutableRawBufferPointer, from descriptor: Int32) -> Int {
    var filled = 0
    while filled < buffer.count {
      let count = read(descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled)
      if count == 0 { break }
      if count < 0 {
        if errno == EINTR { continue }
        return -Int(errno)
      }
      filled += count
    }
    return filled
  }

  /// Fills the buffer from a place in the file, as far as there is something.
  static func fill(_ buffer: UnsafeMutableRawBufferPointer, from descriptor: Int32, at offset: Int) -> Int {
    var filled = 0
    while filled < buffer.count {
      let count = pread(descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled, off_t(offset + filled))
      if count == 0 { break }
      if count < 0 {
        if errno == EINTR { continue }
        return -Int(errno)
      }
      filled += count
    }
    return filled
  }

  /// All that is left of an open file. Nil with `errno` if it can't be read.
  static func contents(of descriptor: Int32) -> [UInt8]? {
    var status = stat()
    let isSized = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    // One more than there should be, to find the end.
    var room = isSized ? Int(status.st_size) + 1 : 1 << 16
    var contents: [UInt8] = []
    while true {
      var error: Int32 = 0
      let before = contents.count
      let piece = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
        let filled = fill(UnsafeMutableRawBufferPointer(buffer), from: descriptor)
        count = max(0, filled)
        error = filled < 0 ? Int32(-filled) : 0
      }
      guard error == 0 else {
        errno = error
        return nil
      }
      if before == 0 { contents = piece } else { contents += piece }
      if piece.count < room { return contents }
      room = max(1 << 16, contents.count)
    }
  }

  /// The whole of a file whose size says nothing, such as those in `/proc`. (Foundation's calls lose the memory they set aside for one that
  /// turns out to be empty.) Nil if it can't be read.
  static func contents(of path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var contents: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = piece.withUnsafeMutableBytes { fill($0, from: descriptor) }
      guard count >= 0 else { return nil }
      contents += piece[..<count]
      if count < piece.count { return contents }
    }
  }

  static func message(_ error: Int32) -> String { String(cString: strerror(error)) }

  /// A descriptor that is missing would be taken by the next file that is opened, and what is meant for the user would go there.
  static func openMissingStandardDescriptors() {
    for descriptor in Int32(0)...2 where fcntl(descriptor, F_GETFD) == -1 {
      // Read-only: what is written there fails, and is noticed.
      _ = open("/dev/null", O_RDONLY)
    }
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
