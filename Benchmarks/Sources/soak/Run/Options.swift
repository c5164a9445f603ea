/// What the command line asks for.
struct Options {
  var wantsHelp = false
  /// Zero: no such aim.
  var operations = 0
  var owners = 0
  var seconds: Double?
  var seed = UInt64.random(in: 0...UInt64(UInt32.max))
  var threads = 4

  struct UsageError: Error, CustomStringConvertible {
    let description: String
  }

  /// Enough that owners come and go all the time, and that most of the work is jobs.
  private static let operationsPerOwner = 100
  private static let mostThreads = 1_000

  static let help = """
    Random work on real threads through the public interface of OwnedOperations, checked all along.

    Usage: soak [options]

    Options:
      --operations N   end when so many operations have been added, such as 1e9; an owner gets about N / owners of them
      --owners N       end when so many owners have been made, such as 1e7; with --operations, when both are reached
      --seconds N      end after so many seconds at the latest; 60 if nothing else is asked for
      --seed N         repeat the choices (not the timing) of another run
      --threads N      add work from so many threads at once; 4 by default
      --help, -h       show this help

    Prints a line a minute and a summary. Status 1: something was found, which is named with the seed. Status 2: bad arguments.

    """

  init(_ arguments: [String]) throws(UsageError) {
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      switch argument {
      case "--help", "-h": wantsHelp = true
      case "--operations": operations = try Self.count(argument, rest.popFirst(), upTo: 1_000_000_000_000)
      case "--owners": owners = try Self.count(argument, rest.popFirst(), upTo: 1_000_000_000_000)
      case "--threads": threads = try Self.count(argument, rest.popFirst(), upTo: Self.mostThreads)
      case "--seconds": seconds = try Self.seconds(argument, rest.popFirst())
      case "--seed": seed = try Self.seed(argument, rest.popFirst())
      default: throw UsageError(description: "unknown argument \"\(argument)\"")
      }
    }
    if operations == 0, owners == 0 { seconds = seconds ?? 60 }
  }

  /// How many operations an owner gets, about.
  var operationsPerOwner: Int {
    guard operations > 0, owners > 0 else { return Self.operationsPerOwner }
    return max(1, operations / owners)
  }

  private static func count(_ option: String, _ text: String?, upTo most: Int) throws(UsageError) -> Int {
    guard let text else { throw UsageError(description: "\(option) needs a number") }
    let number = Int(text) ?? Double(text).flatMap { Int(exactly: $0) }
    guard let number, (1...most).contains(number) else {
      throw UsageError(description: "\(option) needs a whole number from 1 to \(most), not \"\(text)\"")
    }
    return number
  }

  private static func seconds(_ option: String, _ text: String?) throws(UsageError) -> Double {
    guard let text, let number = Double(text), number > 0, number <= 10_000_000 else {
      throw UsageError(description: "\(option) needs a number above 0, and at most 1e7\(text.map { ", not \"\($0)\"" } ?? "")")
    }
    return number
  }

  private static func seed(_ option: String, _ text: String?) throws(UsageError) -> UInt64 {
    guard let text, let number = UInt64(text) else {
      throw UsageError(description: "\(option) needs a whole number, not negative\(text.map { ": \"\($0)\" is none" } ?? "")")
    }
    return number
  }
}
