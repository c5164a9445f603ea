import Foundation
import OwnedOperations

extension RequestClient {
  /// Downloads to a file. Starts at once, and is cancelled with its owner.
  ///
  /// Bytes go to `NAME.part` beside the target. When that file is whole it is moved into place, and replaces one that is there. What is cut
  /// off, by an error, the owner's end or the end of the process, is not lost. The next attempt goes on with it, or the next download to
  /// the same file. That needs a strong `ETag` of the server's, which still has the same content. Otherwise the download starts over. So
  /// does a file of which less than 256 kB had come when its process was killed. A second download to the same file at the same time fails,
  /// after two seconds in which the first may let go of it.
  ///
  /// While the disk stalls, a download that can be gone on with gives its connection up. It does so once only if the server then starts
  /// over.
  ///
  /// There is no limit of time unless ``Request/timeout`` is set, but 60 s without a byte. Interceptors and ``Request/retry`` hold as
  /// for other requests; the cache is not used, and nothing is shared.
  /// - Parameters:
  ///   - request: what to ask for.
  ///   - file: the target. Its folder has to be there.
  ///   - owner: its end stops the download.
  ///   - expectation: checked before the file is moved into place.
  /// - Returns: the operation, whose value is the target's URL.
  @discardableResult
  public func download(
    _ request: Request, to file: URL, owner: some OperationOwner, expecting expectation: DownloadExpectation = DownloadExpectation()
  ) -> RequestOperation<URL> {
    download(request, to: file, lifetime: owner.lifetimeToken.lifetime, expecting: expectation)
  }

  /// Downloads to a file. Starts at once, and is cancelled with the lifetime.
  @discardableResult
  public func download(
    _ request: Request, to file: URL, lifetime: OwnerLifetime, expecting expectation: DownloadExpectation = DownloadExpectation()
  ) -> RequestOperation<URL> {
    let operation = downloadOperation(for: request, to: file, lifetime: lifetime, expecting: expectation)
    startAtOnce(operation)
    return operation
  }

  /// Makes a download for a graph of dependencies: nothing is sent until a queue starts it.
  public func downloadOperation(
    for request: Request, to file: URL, lifetime: OwnerLifetime, expecting expectation: DownloadExpectation = DownloadExpectation()
  ) -> RequestOperation<URL> {
    RequestOperation(
      request, client: self, lifetime: lifetime, decoding: ResponseDecoder { _, _ in file },
      download: DownloadFile(file, expectation, acceptedStatus: request.acceptedStatus))
  }
}
