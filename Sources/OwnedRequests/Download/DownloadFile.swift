import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// The files of a download: `NAME.part`, which grows, and beside it `NAME.part.info`, which says what it is a part of.
///
/// Protocol:
/// - Neither is opened through a symbolic link.
/// - The target is reserved (`DownloadTargets`) from `acquire` to `letGo`: no second download of this process goes there.
/// - The files are open only while they are looked at, and from the head of an answer to the end of its body. A download that waits, for
///   its turn, for the server or for its next attempt, holds none.
/// - The info file is locked (`flock`) as long as they are open. A download of another process to the same place can't open them then.
/// - Whoever opens them again compares: if another process has been there, what was asked for is nothing to go on from.
/// - The part is a beginning of what the info names, if address and strong validator are the same. Anything else starts over.
/// - Starting over first empties the part and then writes the info. A kill in between leaves an empty part, which promises nothing.
/// - A whole part is renamed to its place, then the info is removed. A kill in between leaves an info without a part.
///
/// The disk may stall, and nobody who ends a download waits for it:
/// - What touches the disk does so inside `access`, under the lock of `state`. One call at a time is there, and `inside` counts it.
/// - `letGo` shuts the door: no call enters any more. It never waits.
/// - Whoever leaves last through a shut door closes the files: `letGo` itself if nobody is inside, otherwise the call under way.
/// - So the lock on the info file outlasts a write that is under way.
/// - A transfer that can be gone on with is cut off when the disk stalls; the next attempt begins once what had come is written.
/// - Where the next attempt had to throw away what had come, none is cut off any more: the server knows no ranges, or its content
///   changes. Its session is held back as long as the disk stalls, and fails when that takes longer than a silence may.
final class DownloadFile: Sendable {
  struct Info: Codable, Equatable {
    var url: String
    /// A strong `ETag`.
    var validator: String?
    var length: Int64?
  }

  private struct State {
    var infoFile: Int32 = -1
    var partFile: Int32 = -1
    var info: Info?
    var offset: Int64 = 0
    /// What the present attempt has asked to go on from; zero for the whole.
    var asked: Int64 = 0
    var url = ""
    /// Of the first `offset` bytes, if it will be asked for.
    var hasher: SHA256?
    var startsOver = false
    var isWhole = false
    var reservation: DownloadTargets.Reservation?
  }

  private struct Door {
    var inside = 0
    var isShut = false
    var isClosed = false
    /// Whether the transfer that is under way can be cut off, and another go on. Here because `state` is locked while the disk stalls.
    var canGoOn = false
    /// The transfer was cut off because the disk stalled.
    var wasCut = false
    /// One before it was.
    var hasBeenCut = false
    /// What had come until then was thrown away.
    var cutsAreInVain = false

    /// - Returns: true to whoever has to close the files.
    mutating func closes() -> Bool {
      guard isShut, inside == 0, !isClosed else { return false }
      isClosed = true
      return true
    }
  }

  private let target: URL
  private let expectation: DownloadExpectation
  private let acceptedStatus: Range<Int>
  /// For tests: called before each piece is written.
  private let willWrite: (@Sendable () -> Void)?
  /// For tests: called before each piece of a part that was there is read.
  private let willRead: (@Sendable () -> Void)?
  private let state = Guarded(State())
  private let door = Guarded(Door())

  private var partPath: String { target.path + ".part" }
  private var infoPath: String { target.path + ".part.info" }

  init(
    _ target: URL, _ expectation: DownloadExpectation, acceptedStatus: Range<Int> = 200..<300, willWrite: (@Sendable () -> Void)? = nil,
    willRead: (@Sendable () -> Void)? = nil
  ) {
    self.target = target
    self.acceptedStatus = acceptedStatus
    self.expectation = expectation
    self.willWrite = willWrite
    self.willRead = willRead
  }

  deinit { letGo() }

  /// For what touches the disk.
  private func access<Result>(_ body: (inout State) throws(RequestError) -> Result) throws(RequestError) -> Result {
    let isOpen = door.withLock { door in
      if !door.isShut { door.inside += 1 }
      return !door.isShut
    }
    guard isOpen else { throw .cancelled(.requested) }
    defer {
      let closes = door.withLock { door in
        door.inside -= 1
        return door.closes()
      }
      if closes { closeFiles() }
    }
    return try state.withLock(body)
  }

  // MARK: Opening and closing

  /// - Returns: false if another download writes there.
  func acquire() throws(RequestError) -> Bool {
    try expectation.check()
    guard target.isFileURL else { throw .invalidParameters("target: \(AddressText.shown(target)) is not the URL of a file") }
    var isDirectory: ObjCBool = false
    if FileManager.default.fileExists(atPath: target.path, isDirectory: &isDirectory), isDirectory.boolValue {
      throw .invalidParameters("target: \(target.path) is a directory")
    }
    return try access { state throws(RequestError) in
      guard let reservation = DownloadTargets.shared.reserve(target) else { return false }
      guard try open(&state) else { return false }
      rest(&state)
      state.reservation = reservation
      return true
    }
  }

  /// Nothing comes for a while: lets go of the files until they are needed again. What has come stays there.
  func rest() { try? access { rest(&$0) } }

  /// - Returns: false if another download, of another process, writes there.
  private func open(_ state: inout State) throws(RequestError) -> Bool {
    guard state.partFile < 0 else { return true }
    guard try lockInfo(&state) else { return false }
    state.partFile = Foundation.open(partPath, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o644)
    guard state.partFile >= 0 else {
      let failure = openFailure(partPath)
      rest(&state)
      throw failure
    }
    let info = readInfo(&state)
    // What was hashed was a part of something else.
    if info?.url != state.info?.url || info?.validator != state.info?.validator { state.hasher = nil }
    state.info = info
    return true
  }

  /// - Returns: whether the part is what was asked to go on from.
  private func openAgain(_ state: inout State) throws(RequestError) -> Bool {
    guard state.partFile < 0 else { return true }
    let former = state.info
    guard try open(&state) else { throw Self.isTaken }
    return state.info == former && partSize(state) == state.asked
  }

  static let isTaken = RequestError.invalidParameters("target: another download writes to the same file")

  private func partSize(_ state: State) -> Int64 { Int64(lseek(state.partFile, 0, SEEK_END)) }

  /// A link is not followed: what it leads to is no part of a download.
  private func openFailure(_ path: String) -> RequestError { .lastFailure(to: errno == ELOOP ? "follow the symbolic link" : "open", path) }

  private func lockInfo(_ state: inout State) throws(RequestError) -> Bool {
    while true {
      let file = Foundation.open(infoPath, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o644)
      guard file >= 0 else { throw openFailure(infoPath) }
      guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
        let code = errno
        close(file)
        if code == EWOULDBLOCK { return false }
        throw .fileSystem(FileFailure(action: "lock", path: infoPath, code: code))
      }
      // The one who had it before may have removed it meanwhile; then the lock is on a file that nobody else will find.
      var (mine, present) = (stat(), stat())
      if fstat(file, &mine) == 0, stat(infoPath, &present) == 0, mine.st_ino == present.st_ino, mine.st_dev == present.st_dev {
        state.infoFile = file
        return true
      }
      close(file)
    }
  }

  /// Lets go of the files, for good. What has come stays there for the next time. Does not wait for a write that is under way: the files
  /// are closed after it then.
  func letGo() {
    let closes = door.withLock { door in
      door.isShut = true
      return door.closes()
    }
    if closes { closeFiles() }
  }

  private func closeFiles() {
    let reservation = state.withLock { state in
      rest(&state)
      defer { state.reservation = nil }
      return state.reservation
    }
    withExtendedLifetime(reservation) {}
  }

  private func rest(_ state: inout State) {
    if state.partFile >= 0 {
      // An empty part is nothing to go on from, and nothing to leave behind.
      let isEmpty = partSize(state) <= 0
      if isEmpty, !state.isWhole { unlink(partPath) }
      if isEmpty || state.isWhole { unlink(infoPath) }
      close(state.partFile)
    }
    // Nothing was said of a part that could not be opened.
    if state.partFile < 0, state.infoFile >= 0, lseek(state.infoFile, 0, SEEK_END) == 0 { unlink(infoPath) }
    state.partFile = -1
    if state.infoFile >= 0 { close(state.infoFile) }
    state.infoFile = -1
  }

  // MARK: Info

  private func readInfo(_ state: inout State) -> Info? {
    var bytes = [UInt8](repeating: 0, count: 65536)
    let count = pread(state.infoFile, &bytes, bytes.count, 0)
    guard count > 0 else { return nil }
    return try? JSONDecoder().decode(Info.self, from: Data(bytes.prefix(count)))
  }

  private func writeInfo(_ info: Info, _ state: inout State) throws(RequestError) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    guard let data = try? encoder.encode(info) else { return }
    guard ftruncate(state.infoFile, 0) == 0, data.withUnsafeBytes({ pwrite(state.infoFile, $0.baseAddress, $0.count, 0) }) == data.count
    else {
      throw .lastFailure(to: "write", infoPath)
    }
    state.info = info
  }

  // MARK: An attempt

  /// Makes the request one for what is missing, if what is there can be gone on with.
  func adapt(_ urlRequest: inout URLRequest) throws(RequestError) {
    // The file may be read by others, and its content is the same whoever asks: that is what the validator says.
    let url = urlRequest.url.map { AddressText.withoutUser($0).absoluteString } ?? ""
    // Offsets count bytes as they are stored, not as they would be compressed.
    urlRequest.setValue("identity", forHTTPHeaderField: "Accept-Encoding")
    let isGet = urlRequest.httpMethod == "GET"
    door.withLock { door in
      door.canGoOn = false
      door.wasCut = false
    }
    let resumption = try access { state throws(RequestError) -> (offset: Int64, validator: String)? in
      guard try open(&state) else { throw Self.isTaken }
      defer { rest(&state) }
      state.url = url
      state.startsOver = false
      let size = partSize(state)
      guard isGet, let info = state.info, info.url == url, let validator = info.validator, size > 0, size <= info.length ?? .max else {
        try startOver(&state)
        return nil
      }
      try hashPart(size, &state)
      state.offset = size
      state.asked = size
      return (size, validator)
    }
    guard let resumption else { return }
    urlRequest.setValue("bytes=\(resumption.offset)-", forHTTPHeaderField: "Range")
    urlRequest.setValue(resumption.validator, forHTTPHeaderField: "If-Range")
  }

  private func startOver(_ state: inout State) throws(RequestError) {
    guard ftruncate(state.partFile, 0) == 0 else { throw .lastFailure(to: "empty", partPath) }
    if state.offset > 0 {
      door.withLock { if $0.hasBeenCut { $0.cutsAreInVain = true } }
    }
    state.offset = 0
    state.asked = 0
    state.hasher = expectation.sha256 == nil ? nil : SHA256()
  }

  /// What had come before has to be read again, if its checksum is wanted.
  private func hashPart(_ size: Int64, _ state: inout State) throws(RequestError) {
    guard expectation.sha256 != nil, state.hasher == nil || state.offset != size else { return }
    var hasher = SHA256()
    var buffer = [UInt8](repeating: 0, count: 1 << 18)
    var offset: Int64 = 0
    while offset < size {
      willRead?()
      guard !door.withLock({ $0.isShut }) else { throw .cancelled(.requested) }
      let count = pread(state.partFile, &buffer, buffer.count, off_t(offset))
      guard count > 0 else { throw .lastFailure(to: "read", partPath) }
      buffer.withUnsafeBytes { hasher.update(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }
      offset += Int64(count)
    }
    state.hasher = hasher
  }

  /// What an answer 416 means: the part is the whole, or is of something else.
  /// - Returns: true if it is the whole, which is in place then. False if there is nothing to go on from: the part has been emptied.
  func isWhole(after head: ResponseHead) throws(RequestError) -> Bool {
    let isWhole = try access { state throws(RequestError) -> Bool? in
      guard state.asked > 0 else { return nil }
      let isMine = try openAgain(&state)
      let isSame = head.headers["ETag"] == nil || head.headers["ETag"] == state.info?.validator
      if isMine, isSame, ContentRange(head.headers["Content-Range"])?.total == state.asked { return true }
      try startOver(&state)
      state.startsOver = true
      return false
    }
    if isWhole == true { try end() }
    return isWhole == true
  }

  /// Whether the attempt ended because the disk stalled. The next one goes on.
  func takeCut() -> Bool {
    door.withLock { door in
      defer { door.wasCut = false }
      return door.wasCut
    }
  }

  /// Whether the attempt has shown that what was there belonged to something else. The next one asks for the whole.
  func takeStartsOver() -> Bool {
    state.withLock { state in
      defer { state.startsOver = false }
      return state.startsOver
    }
  }
}

extension DownloadFile: TransferSink {
  func begin(_ head: ResponseHead) throws(RequestError) -> Bool {
    try access { state throws(RequestError) in
      switch head.status {
      case 200..<206, 207..<300:
        guard acceptedStatus.contains(head.status) else { return false }
        _ = try openAgain(&state)
        try startOver(&state)
        // Bytes that were compressed on the way can't be counted from.
        let tag = head.headers["Content-Encoding"] == nil ? head.headers["ETag"].flatMap { $0.hasPrefix("W/") ? nil : $0 } : nil
        try writeInfo(Info(url: state.url, validator: tag, length: head.contentLength), &state)
        door.withLock { $0.canGoOn = tag != nil && !$0.cutsAreInVain }
        if let length = head.contentLength, let expected = expectation.length, length != expected {
          throw .unexpectedContent("\(target.lastPathComponent) has \(length) bytes on the server, not the \(expected) expected")
        }
        return true
      case 206:
        let isMine = try openAgain(&state)
        let range = ContentRange(head.headers["Content-Range"])
        let isSame = head.headers["ETag"] == nil || head.headers["ETag"] == state.info?.validator
        let length = state.info?.length
        guard isMine, state.asked > 0, let range, range.start == state.asked, isSame,
          range.total == nil || length == nil || range.total == length
        else {
          let wasAsked = state.asked > 0
          try startOver(&state)
          state.startsOver = wasAsked
          throw .unexpectedContent("the server sent another part of \(target.lastPathComponent) than was asked for")
        }
        // A first answer without a length is no reason to take a part for the whole.
        if length == nil { state.info?.length = range.total }
        door.withLock { $0.canGoOn = !$0.cutsAreInVain }
        return true
      default: return false
      }
    }
  }

  func write(_ data: Data) throws(RequestError) {
    try access { state throws(RequestError) in
      guard state.partFile >= 0 else { throw .cancelled(.requested) }
      willWrite?()
      var written = 0
      while written < data.count {
        let count = data.withUnsafeBytes { bytes in
          pwrite(state.partFile, bytes.baseAddress.map { $0 + written }, data.count - written, off_t(state.offset))
        }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { throw .lastFailure(to: "write", partPath) }
        // Each piece as it reaches the file: a write that fails later leaves it there.
        state.hasher?.update(data.dropFirst(written).prefix(count))
        written += count
        state.offset += Int64(count)
      }
    }
  }

  func end() throws(RequestError) {
    try access { state throws(RequestError) in
      guard state.partFile >= 0 else { throw .cancelled(.requested) }
      // A server may send less than what was asked for: the next attempt goes on.
      if let info = state.info, info.validator != nil, let length = info.length, state.offset < length, state.asked > 0 {
        throw .transport(URLError(.networkConnectionLost))
      }
      if let complaint = complaint(&state) {
        try startOver(&state)
        state.info = nil
        throw .unexpectedContent(complaint)
      }
      guard rename(partPath, target.path) == 0 else { throw .lastFailure(to: "move the download to", target.path) }
      state.isWhole = true
      state.offset = 0
    }
  }

  func isStalled() -> Bool {
    door.withLock { door in
      if door.canGoOn, !door.isShut {
        door.wasCut = true
        door.hasBeenCut = true
      }
      return door.wasCut
    }
  }

  /// What is to be said of a silence: a write that is under way is the reason. Doesn't wait for it.
  var stallFailure: RequestError? {
    let isInside = door.withLock { $0.inside > 0 }
    return isInside ? .fileSystem(FileFailure(action: "write", path: partPath, code: ETIMEDOUT)) : nil
  }

  private func complaint(_ state: inout State) -> String? {
    let name = target.lastPathComponent
    if let expected = expectation.length, expected != state.offset {
      return "\(name) has \(state.offset) bytes, not the \(expected) expected"
    }
    if let length = state.info?.length, length != state.offset { return "\(name) came with \(state.offset) bytes of \(length)" }
    guard let expected = expectation.sha256?.lowercased(), var hasher = state.hasher else { return nil }
    let digest = SHA256.hexadecimal(hasher.finish())
    return digest == expected ? nil : "\(name) has the SHA-256 \(digest), not \(expected) as expected"
  }
}
