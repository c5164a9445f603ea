import Foundation

#if canImport(FoundationNetworking)
  import FoundationNetworking
#endif

/// Whether, and when, a request that failed is sent again.
///
/// Only methods that may be repeated are: GET, HEAD, PUT, DELETE, OPTIONS. They are repeated after errors of the transport and after the
/// answers 408, 429 and 5xx. A `Retry-After` of the server's is waited for. Where that is longer than the request has time, the request
/// fails at once with what the server said. What has no limit of time (downloads, and uploads of files) waits for 60 s at most, or the
/// policy's `cap` if that is longer.
///
/// Apart from that, on Linux, libcurl sends a request without a body again, whatever its method, if it meets a kept connection that the
/// server closes at that moment.
public enum RetryPolicy: Sendable, Hashable {
  /// Once is enough.
  case none
  /// Up to `attempts` times in all. Waits between half of `base` and `base` before the second, twice that before the third, and so on,
  /// never more than `cap`.
  case exponential(attempts: Int, base: Duration = .milliseconds(500), cap: Duration = .seconds(30))
}

extension RetryPolicy {
  /// How long to wait before the next attempt; nil if there is to be none.
  /// - Parameter randomness: from 0 to 1, for the jitter.
  func delay(after error: RequestError, head: ResponseHead?, attempt: Int, method: Request.Method?, now: Date, randomness: Double)
    -> Duration?
  {
    guard case .exponential(let attempts, let base, let cap) = self, attempt < attempts, method?.isIdempotent == true,
      Self.isTransient(error)
    else {
      return nil
    }
    // In seconds, which have no end: a `Duration` that overflows stops the process.
    let growth = base.inSeconds * pow(2, Double(min(attempt - 1, 60)))
    let delay = Duration.seconds(min(max(growth, 0), cap.inSeconds) * (0.5 + randomness / 2))
    // An answer that broke, or led elsewhere, asks for nothing.
    guard let head, error.isStatus || Self.isTransient(head.status) else { return delay }
    guard let asked = head.headers["Retry-After"].flatMap({ RetryAfter.delay($0, now: now) }) else { return delay }
    return max(delay, asked)
  }

  /// How long what has no limit of time waits, whatever the server asks for.
  func longestDelay(within usual: Duration) -> Duration {
    guard case .exponential(_, _, let cap) = self else { return usual }
    return max(usual, cap)
  }

  private static func isTransient(_ status: Int) -> Bool { status == 408 || status == 429 || (500...599).contains(status) }

  private static func isTransient(_ error: RequestError) -> Bool {
    switch error {
    case .status(let status, _): isTransient(status)
    case .transport(let error): !lasting.contains(error.code)
    default: false
    }
  }

  /// Errors that another attempt would bring again.
  private static let lasting: Set<URLError.Code> = [
    .badURL, .unsupportedURL, .cancelled, .httpTooManyRedirects, .redirectToNonExistentLocation, .userAuthenticationRequired,
    .cannotDecodeContentData,
    .cannotDecodeRawData, .cannotParseResponse, .serverCertificateUntrusted, .serverCertificateHasBadDate, .serverCertificateHasUnknownRoot,
    .serverCertificateNotYetValid, .clientCertificateRejected, .clientCertificateRequired,
  ]
}

extension Request.Method {
  var isIdempotent: Bool {
    switch self {
    case .get, .head, .put, .delete, .options: true
    case .post, .patch: false
    }
  }
}

/// The header: seconds, or a date.
enum RetryAfter {
  static func delay(_ value: String, now: Date) -> Duration? {
    let value = value.trimmingCharacters(in: .whitespaces)
    if let seconds = Int64(value) { return seconds >= 0 ? .seconds(min(seconds, 1 << 32)) : nil }
    guard let date = HTTPDate.parse(value) else { return nil }
    return .milliseconds(Int64(max(0, min(date.timeIntervalSince(now), 4e9)) * 1000))
  }
}

extension RequestError {
  fileprivate var isStatus: Bool { if case .status = self { true } else { false } }
}

/// Dates as HTTP writes them: `Sun, 06 Nov 1994 08:49:37 GMT`.
enum HTTPDate {
  private static let months = [
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
  ]

  static func parse(_ text: String) -> Date? {
    let words = text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "-" })
    guard words.count >= 5, let day = Int(words[1]), let month = months[words[2].lowercased()], var year = Int(words[3]) else { return nil }
    let time = words[4].split(separator: ":").compactMap { Int($0) }
    guard time.count == 3, (1...31).contains(day), (0...23).contains(time[0]), (0...59).contains(time[1]), (0...60).contains(time[2]) else {
      return nil
    }
    if year < 100 { year += year < 70 ? 2000 : 1900 }
    guard (1900...9999).contains(year) else { return nil }
    // Days since 1970, by counting those of eras of 400 years that begin in March.
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    return Date(timeIntervalSince1970: Double(days * 86400 + time[0] * 3600 + time[1] * 60 + time[2]))
  }
}
