import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// The files of a download. `NAME.part` grows. Beside it `NAME.part.info`, the record, says what it is a part of.
///
/// Protocol:
/// - Neither is opened through a symbolic link.
/// - The target is reserved (`DownloadTargets`) from `acquire` to `letGo`: no second download of this process goes there.
/// - The part is open only while it is looked at, and from the head of an answer to the end of its body. A download that waits, for
///   its turn, for the server or for its next attempt, does not hold it.
/// - It is locked (`flock`) as long as it is open. A download of another process to the same place can't open it then.
/// - The record is read, written and removed under that lock.
/// - Whoever opens the part again compares: if another process has been there, what was asked for is nothing to go on from.
/// - The part is a beginning of what the record names, if address and strong validator are the same. Anything else starts over.
///
/// Most files are small, come in one go and need one file, which is renamed:
/// - Nothing is made before an answer whose body goes to the file.
/// - A part gets its record with its first `recordedLength` bytes. A shorter one gets it when it is closed, and is not whole.
/// - A part without a record promises nothing. So a kill before there is one loses less than `recordedLength` bytes.
/// - Without a strong validator there is nothing to go on from, and no record.
/// - Starting over empties the part, then removes a record that is there, before the first byte. A kill in between leaves an empty part,
///   which promises nothing. So a record never is beside bytes of something else.
/// - The record of a whole part is removed, then the part is renamed to its place. A kill in between starts over.
/// - On a full disk a part that is closed gives the last of its bytes for its record.
///
/// The disk may stall, and nobody who ends a download waits for it:
/// - What touches the disk does so inside `access`, under the lock of `state`. One call at a time is there, and `inside` counts it.
/// - `letGo` shuts the door: no call enters any more. It never waits.
/// - Whoever leaves last through a shut door closes the files: `letGo` itself if nobody is inside, otherwise the call under way.
/// - So the lock on the part outlasts a write that is under way.
/// - To close a part that has no record yet may take its time. `letGoInBackground` leaves that to `DownloadClosings`.
/// - A transfer that can be gone on with is cut off when the disk stalls. The next attempt begins once what had come is written.
/// - Where the next attempt had to throw away what had come, none is cut off any more. In that case the server knows no ranges, or its
///   content changes. Its session is held back as long as the disk stalls, and fails when that takes longer than a silence may.
final class DownloadFile: Sendable {
  struct Info: Codable, Equatable {
    var url: String
    /// A strong `ETag`.
    var validator: String?
    var length: Int64?
  }

  /// From so many bytes on, a part is worth a record at once.
  static let recordedLength: Int64 = 1 << 18

  private struct State {
    var partFile: Int32 = -1
    /// What the part that is open is a part of.
    var info: Info?
    /// Whether there is a record beside the part that is open. What it says is `info`.
    var hasRecord = false
    var offset: Int64 = 0
    /// What the present attempt has asked to go on from; zero for the whole.
    var asked: Int64 = 0
    var url = ""
    /// The hash of the first `offset` bytes, if it will be asked for.
    var hasher: SHA256?
    var startsOver = false
    var isWhole = false
    var reservation: DownloadTargets.Reservation?

    var size: Int64 { Int64(lseek(partFile, 0, SEEK_END)) }

    /// Whether it is to be said what the part is a part of.
    var owesRecord: Bool { partFile >= 0 && !isWhole && !hasRecord && info?.validator != nil && size > 0 }
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
  /// For tests: called before each piece, and the record, is written.
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
    guard target.isFileURL, target.path.hasPrefix("/") else {
      throw .invalidParameters("target: \(AddressText.shown(target)) is not the URL of a file with an absolute path")
    }
    var isDirectory: ObjCBool = false
    if FileManager.default.fileExists(atPath: target.path, isDirectory: &isDirectory), isDirectory.boolValue {
      throw .invalidParameters("target: \(target.path) is a directory")
    }
    return try access { state throws(RequestError) in
      guard let reservation = DownloadTargets.shared.reserve(target) else { return false }
      guard try open(&state, makes: false) else { return false }
      if state.partFile < 0 { try checkFolder() }
      rest(&state)
      state.reservation = reservation
      return true
    }
  }

  /// Nothing comes for a while: lets go of the files until they are needed again. What has come stays there.
  func rest() { try? access { rest(&$0) } }

  /// - Parameter makes: whether a part that is not there is made. Otherwise none is open then, and nothing is known of one.
  /// - Returns: false if another download, of another process, writes there.
  private func open(_ state: inout State, makes: Bool) throws(RequestError) -> Bool {
    guard state.partFile < 0 else { return true }
    guard try lockPart(&state, makes: makes) else { return false }
    var info: Info?
    do throws(RequestError) {
      state.hasRecord = false
      let record = try readRecord()
      // One that has lost its part is removed when there is a part again.
      state.hasRecord = record != nil && state.partFile >= 0
      if state.hasRecord { info = record.flatMap { try? JSONDecoder().decode(Info.self, from: $0) } }
      // Others may write there, too. What is sent along must not bring lines of theirs.
      if let validator = info?.validator, HeaderFields.complaint(about: "If-Range", value: validator) != nil { info = nil }
    } catch {
      // What was known may be of another part by now.
      (state.info, state.hasher) = (nil, nil)
      rest(&state)
      throw error
    }
    // What was hashed was a part of something else.
    if info?.url != state.info?.url || info?.validator != state.info?.validator { state.hasher = nil }
    state.info = info
    return true
  }

  /// - Returns: whether the part is what was asked to go on from.
  private func openAgain(_ state: inout State) throws(RequestError) -> Bool {
    guard state.partFile < 0 else { return true }
    let former = state.info
    guard try open(&state, makes: true) else { throw Self.isTaken }
    return state.info == former && state.size == state.asked
  }

  static let isTaken = RequestError.invalidParameters("target: another download writes to the same file")

  /// A link is not followed: what it leads to is no part of a download.
  private func openFailure(_ path: String) -> RequestError { .lastFailure(to: errno == ELOOP ? "follow the symbolic link" : "open", path) }

  /// Reading or writing a pipe may take for ever. Opened with `O_NONBLOCK`, which is of no consequence for a file.
  private func checkIsFile(_ file: Int32, _ path: String) throws(RequestError) {
    var status = stat()
    guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      close(file)
      throw .invalidParameters("target: \(path) is in the way, and not a regular file")
    }
  }

  /// Before anything is sent: whether a part can be made.
  private func checkFolder() throws(RequestError) {
    let folder = target.deletingLastPathComponent().path
    guard faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 else { throw openFailure(partPath) }
  }

  private func lockPart(_ state: inout State, makes: Bool) throws(RequestError) -> Bool {
    while true {
      let file = Foundation.open(partPath, (makes ? O_CREAT : 0) | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o644)
      if file < 0, errno == ENOENT, !makes { return true }
      guard file >= 0 else { throw openFailure(partPath) }
      try checkIsFile(file, partPath)
      guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
        let code = errno
        close(file)
        if code == EWOULDBLOCK { return false }
        throw .fileSystem(FileFailure(action: "lock", path: partPath, code: code))
      }
      // The one who had it before may have moved it away meanwhile. Then the lock is on a file that nobody else will find.
      var (mine, present) = (stat(), stat())
      if fstat(file, &mine) == 0, lstat(partPath, &present) == 0, mine.st_ino == present.st_ino, mine.st_dev == present.st_dev {
        state.partFile = file
        return true
      }
      close(file)
    }
  }

  /// Lets go of the files, for good. What has come stays there for the next time. Does not wait for a write that is under way: the files
  /// are closed after it then.
  func letGo() {
    if shutsDoor() { closeFiles() }
  }

  /// The same for a thread that must not wait for the disk at all.
  func letGoInBackground() {
    guard shutsDoor() else { return }
    if state.withLock({ $0.owesRecord }) { DownloadClosings.shared.perform { self.closeFiles() } } else { closeFiles() }
  }

  private func shutsDoor() -> Bool {
    door.withLock { door in
      door.isShut = true
      return door.closes()
    }
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
    guard state.partFile >= 0 else { return }
    if state.owesRecord { recordAtLast(&state) }
    // An empty part is nothing to go on from, and nothing to leave behind.
    if !state.isWhole, state.size <= 0 {
      removeRecord(&state)
      unlink(partPath)
    }
    close(state.partFile)
    state.partFile = -1
  }

  // MARK: The record

  /// - Returns: nil if there is none.
  private func readRecord() throws(RequestError) -> Data? {
    let file = Foundation.open(infoPath, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    if file < 0, errno == ENOENT { return nil }
    guard file >= 0 else { throw openFailure(infoPath) }
    try checkIsFile(file, infoPath)
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 65536)
    let count = read(file, &bytes, bytes.count)
    return Data(bytes.prefix(max(count, 0)))
  }

  private func removeRecord(_ state: inout State) {
    if state.hasRecord { unlink(infoPath) }
    state.hasRecord = false
  }

  private func writeRecord(_ state: inout State) throws(RequestError) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    guard let info = state.info, let data = try? encoder.encode(info) else { return }
    willWrite?()
    let file = Foundation.open(infoPath, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o644)
    guard file >= 0 else { throw openFailure(infoPath) }
    try checkIsFile(file, infoPath)
    defer { close(file) }
    guard data.withUnsafeBytes({ Foundation.write(file, $0.baseAddress, $0.count) }) == data.count else {
      let failure = RequestError.lastFailure(to: "write", infoPath)
      unlink(infoPath)
      throw failure
    }
    state.hasRecord = true
  }

  /// There is nobody to tell of a failure. Without its record the part is nothing to go on from.
  private func recordAtLast(_ state: inout State) {
    do throws(RequestError) { try writeRecord(&state) } catch {
      guard case .fileSystem(let failure as FileFailure) = error, [ENOSPC, EDQUOT].contains(failure.code) else { return }
      guard ftruncate(state.partFile, off_t((state.size - 1) & ~0xFFFF)) == 0, state.owesRecord else { return }
      try? writeRecord(&state)
    }
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
      guard try open(&state, makes: false) else { throw Self.isTaken }
      defer { rest(&state) }
      state.url = url
      state.startsOver = false
      let size = state.size
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
    if state.partFile >= 0 {
      if state.size > 0, ftruncate(state.partFile, 0) != 0 { throw .lastFailure(to: "empty", partPath) }
      removeRecord(&state)
    }
    state.info = nil
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
        state.info = Info(url: state.url, validator: tag, length: head.contentLength)
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
      if state.offset >= Self.recordedLength, state.owesRecord { try writeRecord(&state) }
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
        throw .unexpectedContent(complaint)
      }
      // If it can't be moved, it gets one again when it is closed.
      removeRecord(&state)
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
