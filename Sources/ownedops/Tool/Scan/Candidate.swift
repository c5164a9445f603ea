import Foundation

/// A file that shares its size with another.
struct Candidate {
  let directory: DirectoryNode
  let file: DirectoryNode.File

  var name: [UInt8] { directory.name(of: file) }
  var path: [UInt8] { directory.path(of: name) }
}

/// All candidates, by size. The fingerprint of each is written by one job, and read by jobs that come after.
final class CandidateTable: @unchecked Sendable {  // no fingerprint is written by two jobs at a time, see above; the rest is constant
  struct Place {
    let directory: Int32
    let file: Int32
  }

  private let nodes: [DirectoryNode]
  private let places: [Place]
  /// Of the files' beginnings. Zero: not read yet, or not to be read. Apart from the places, which others read meanwhile.
  private let fingerprints: UnsafeMutablePointer<UInt64>

  init(_ places: [Place], of nodes: [DirectoryNode]) {
    self.nodes = nodes
    self.places = places
    fingerprints = .allocate(capacity: places.count)
    fingerprints.initialize(repeating: 0, count: places.count)
  }

  deinit { fingerprints.deallocate() }

  var count: Int { places.count }

  /// In the order of directories, then of files.
  func sorted(_ range: Range<Int>) -> [Int] {
    range.sorted { (places[$0].directory, places[$0].file) < (places[$1].directory, places[$1].file) }
  }

  subscript(place: Int) -> Candidate {
    let directory = directory(of: place)
    return Candidate(directory: directory, file: directory.files[Int(places[place].file)])
  }

  func directory(of place: Int) -> DirectoryNode { nodes[Int(places[place].directory)] }

  func fingerprint(of place: Int) -> UInt64? { fingerprints[place] == 0 ? nil : fingerprints[place] }
  func setFingerprint(_ value: UInt64, of place: Int) { fingerprints[place] = value == 0 ? 1 : value }
}

/// Reads candidates for one job, with buffers of its own, a piece at a time.
final class CandidateReader {
  /// What tells most files of one size apart, and what many files have no more of.
  static let headLength = 1 << 12
  static let pieceLength = 1 << 16
  /// More are not read side by side.
  static let mostAtOnce = 32
  /// For the pieces of all that are.
  private static let mostRoom = 1 << 18

  /// Why a file is no candidate any more.
  enum Fault: Error {
    case error(Int32)
    /// It is not what it was.
    case changed
  }

  private let table: CandidateTable
  private let census: Census
  private let directories: OpenDirectories
  private let note: (_ place: Int) -> Bool
  private var pieces: UnsafeMutableRawBufferPointer
  private var path: [UInt8] = []
  private(set) var bytesRead = 0

  let shouldStop: () -> Bool

  /// - Parameters:
  ///   - shouldStop: asked between pieces.
  ///   - note: asked whether a file that can't be read is to be told of; it is told of once.
  init(
    _ table: CandidateTable, _ census: Census, _ directories: OpenDirectories, shouldStop: @escaping () -> Bool,
    note: @escaping (_ place: Int) -> Bool = { _ in true }
  ) {
    self.table = table
    self.census = census
    self.directories = directories
    self.shouldStop = shouldStop
    self.note = note
    pieces = .allocate(byteCount: Self.headLength, alignment: 16)
  }

  deinit { pieces.deallocate() }

  /// Of the beginning. Nil if it can't be read, which has been noted.
  func fingerprint(of place: Int) -> UInt64? {
    let file = table[place].file
    return fingerprint(of: place, 0..<min(Int(file.size), Self.headLength))
  }

  /// Of a part. Nil if it can't be read, which has been noted, or if it should stop.
  func fingerprint(of place: Int, _ range: Range<Int>) -> UInt64? {
    guard !shouldStop(), let descriptor = open(place) else { return nil }
    defer { close(descriptor) }
    prepare(pieces: 1, of: min(range.count, Self.pieceLength))
    var hash = StreamHash()
    var offset = range.lowerBound
    while offset < range.upperBound {
      if offset > range.lowerBound, shouldStop() { return nil }
      guard let piece = read(min(range.upperBound - offset, Self.pieceLength), at: offset, 0, from: descriptor, place) else { return nil }
      hash.add(piece)
      offset += piece.count
    }
    return hash.value
  }

  /// Opens a file for ``read(_:at:_:from:_:)``. Nil if it is not what it was, which has been noted.
  func open(_ place: Int) -> Int32? {
    let candidate = table[place]
    let descriptor = directories.openFile(candidate.file, in: candidate.directory, &path)
    guard descriptor >= 0 else {
      tell(.error(-descriptor), place)
      return nil
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, FileIdentity(status) == candidate.directory.identity(of: candidate.file),
      status.st_mode & S_IFMT == S_IFREG, Int64(status.st_size) == candidate.file.size
    else {
      close(descriptor)
      tell(.changed, place)
      return nil
    }
    return descriptor
  }

  /// How long pieces of so many files are, at most: the more files, the shorter.
  static func pieceLength(of count: Int) -> Int { min(pieceLength, mostRoom / max(1, count) / headLength * headLength) }

  /// Makes room for so many pieces of this length at most.
  func prepare(pieces count: Int, of length: Int) {
    let needed = count * length
    guard pieces.count < needed else { return }
    pieces.deallocate()
    pieces = .allocate(byteCount: needed, alignment: 16)
  }

  /// A part of an open file. Nil if there is no such part any more, which has been noted.
  /// - Parameter number: of the room for it.
  func read(_ length: Int, at offset: Int, _ number: Int, from descriptor: Int32, _ place: Int) -> UnsafeRawBufferPointer? {
    let start = number * length
    let buffer = UnsafeMutableRawBufferPointer(rebasing: pieces[start..<start + length])
    let count = RawFile.fill(buffer, from: descriptor, at: offset)
    guard count == length else {
      tell(count < 0 ? .error(Int32(-count)) : .changed, place)
      return nil
    }
    bytesRead += count
    return UnsafeRawBufferPointer(buffer)
  }

  private func tell(_ fault: Fault, _ place: Int) {
    guard note(place) else { return }
    switch fault {
    case .error(let error): census.note(error: error, at: table[place].path, isDirectory: error == ENOTDIR)
    case .changed:
      var tally = Census.Tally()
      tally.changed = 1
      census.add(tally)
    }
  }
}
