import Foundation

/// A file that shares its size with another.
struct Candidate {
  let directory: DirectoryNode
  let file: DirectoryNode.File
  /// Of the file's beginning. Nil: not read yet, or not to be read.
  var fingerprint: UInt64?

  var name: [UInt8] { directory.name(of: file) }
  var path: [UInt8] { directory.path(of: name) }
}

/// All candidates, by size. Each is written by the one job that fingerprints it, and read by jobs that come after.
final class CandidateTable: @unchecked Sendable {  // no element is touched by two jobs at a time, see above
  private let storage: UnsafeMutableBufferPointer<Candidate>

  init(_ candidates: [Candidate]) {
    storage = .allocate(capacity: candidates.count)
    _ = storage.initialize(from: candidates)
  }

  deinit {
    storage.deinitialize()
    storage.deallocate()
  }

  var count: Int { storage.count }

  subscript(place: Int) -> Candidate {
    get { storage[place] }
    set { storage[place] = newValue }
  }
}

/// Reads candidates for one job, with one buffer, a piece at a time.
final class CandidateReader {
  static let headLength = 1 << 16

  private let first = UnsafeMutableRawBufferPointer.allocate(byteCount: headLength, alignment: 16)
  private let second = UnsafeMutableRawBufferPointer.allocate(byteCount: headLength, alignment: 16)
  private let census: Census
  private let shouldStop: () -> Bool
  private(set) var bytesRead = 0

  init(_ census: Census, shouldStop: @escaping () -> Bool) {
    self.census = census
    self.shouldStop = shouldStop
  }

  deinit {
    first.deallocate()
    second.deallocate()
  }

  /// What a read came to.
  enum Answer<Value> {
    case value(Value)
    /// The file is not what it was, or can't be read. It has been noted.
    case unreadable
    /// The owner has ended.
    case stopped
  }

  /// Of the first 64 kB: of a smaller file, of all of it.
  func fingerprint(of candidate: Candidate, in directory: Int32) -> Answer<UInt64> {
    guard !shouldStop() else { return .stopped }
    guard let descriptor = open(candidate, in: directory) else { return .unreadable }
    defer { close(descriptor) }
    let length = min(Int(candidate.file.size), first.count)
    guard let piece = read(length, into: first, from: descriptor, candidate) else { return .unreadable }
    var hash = StreamHash()
    hash.add(piece)
    return .value(hash.value)
  }

  /// Of everything.
  func fullFingerprint(of candidate: Candidate) -> Answer<UInt64> {
    guard let descriptor = open(candidate) else { return .unreadable }
    defer { close(descriptor) }
    var hash = StreamHash()
    var rest = Int(candidate.file.size)
    while rest > 0 {
      guard !shouldStop() else { return .stopped }
      guard let piece = read(min(rest, first.count), into: first, from: descriptor, candidate) else { return .unreadable }
      hash.add(piece)
      rest -= piece.count
    }
    return .value(hash.value)
  }

  /// Byte by byte.
  /// - Returns: of two files that differ, or one of which can't be read, which it was is told by ``Comparison``.
  func compare(_ left: Candidate, _ right: Candidate) -> Answer<Comparison> {
    guard let leftDescriptor = open(left) else { return .value(.leftUnreadable) }
    defer { close(leftDescriptor) }
    guard let rightDescriptor = open(right) else { return .unreadable }
    defer { close(rightDescriptor) }
    var rest = Int(left.file.size)
    while rest > 0 {
      guard !shouldStop() else { return .stopped }
      let length = min(rest, first.count)
      guard let leftPiece = read(length, into: first, from: leftDescriptor, left) else { return .value(.leftUnreadable) }
      guard let rightPiece = read(length, into: second, from: rightDescriptor, right) else { return .unreadable }
      guard leftPiece.elementsEqual(rightPiece, byMemoryOf: length) else { return .value(.different) }
      rest -= length
    }
    return .value(.equal)
  }

  enum Comparison {
    case equal, different, leftUnreadable
  }

  // MARK: Reading

  private func open(_ candidate: Candidate) -> Int32? {
    let directory = candidate.directory.openDirectory()
    guard directory >= 0 else {
      census.note(error: -directory, at: candidate.path, isDirectory: true)
      return nil
    }
    defer { close(directory) }
    return open(candidate, in: directory)
  }

  private func open(_ candidate: Candidate, in directory: Int32) -> Int32? {
    // Without blocking: a pipe may have taken the file's place.
    let descriptor = candidate.name.withCString { openat(directory, $0, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) }
    guard descriptor >= 0 else {
      census.note(error: errno, at: candidate.path, isDirectory: false)
      return nil
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, FileIdentity(status) == candidate.file.identity, status.st_mode & S_IFMT == S_IFREG,
      Int64(status.st_size) == candidate.file.size
    else {
      close(descriptor)
      noteChange()
      return nil
    }
    return descriptor
  }

  private func read(
    _ length: Int, into buffer: UnsafeMutableRawBufferPointer, from descriptor: Int32, _ candidate: Candidate
  ) -> UnsafeRawBufferPointer? {
    let count = RawFile.fill(UnsafeMutableRawBufferPointer(rebasing: buffer[..<length]), from: descriptor)
    guard count == length else {
      if count < 0 { census.note(error: Int32(-count), at: candidate.path, isDirectory: false) } else { noteChange() }
      return nil
    }
    bytesRead += count
    return UnsafeRawBufferPointer(rebasing: buffer[..<length])
  }

  private func noteChange() {
    var tally = Census.Tally()
    tally.changed = 1
    census.add(tally)
  }
}

/// Tells most different contents apart. Equal hashes prove nothing: contents are compared.
struct StreamHash {
  private var state: UInt64 = 0x9e37_79b9_7f4a_7c15
  private var length: UInt64 = 0

  /// Pieces of other lengths than a multiple of eight must come last.
  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    var place = 0
    while place + 8 <= bytes.count {
      mix(bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
      place += 8
    }
    var last: UInt64 = 0
    while place < bytes.count {
      last = last << 8 | UInt64(bytes[place])
      place += 1
    }
    mix(last)
    length &+= UInt64(bytes.count)
  }

  @inline(__always)
  private mutating func mix(_ word: UInt64) {
    let product = (state ^ word).multipliedFullWidth(by: 0xd6e8_feb8_6659_fd93)
    state = (product.high ^ product.low) &+ 0xa076_1d64_78bd_642f
  }

  var value: UInt64 { (state ^ length) &* 0xff51_afd7_ed55_8ccd }
}

extension UnsafeRawBufferPointer {
  /// Both have at least `length` bytes.
  fileprivate func elementsEqual(_ other: UnsafeRawBufferPointer, byMemoryOf length: Int) -> Bool {
    guard let left = baseAddress, let right = other.baseAddress else { return length == 0 }
    return memcmp(left, right, length) == 0
  }
}
