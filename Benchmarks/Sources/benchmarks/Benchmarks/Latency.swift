import Dispatch
import Foundation
import OwnedOperations
import Synchronization

extension Benchmark {
  static var latency: Benchmark {
    Benchmark("P8-latency", "from adding a job to its start, on an idle queue") { session in
      let sampleCount = session.pick(500, quick: 100)
      let owned = OwnerScopedQueue()
      let dispatch = DispatchQueue(label: "latency", attributes: .concurrent)
      let screen = Screen()
      var ours = Percentiles()
      var peers = Percentiles()
      for block in 0...session.pick(11, quick: 3) {
        let oursStarts = StartTimes(capacity: sampleCount)
        let peerStarts = StartTimes(capacity: sampleCount)
        for index in 0..<sampleCount {
          oursStarts.markAdded(index)
          owned.async(owner: screen) { _ in oursStarts.markStartedAndSignal(index) }
          oursStarts.waitForSignal()
          pause()
          peerStarts.markAdded(index)
          dispatch.async { peerStarts.markStartedAndSignal(index) }
          peerStarts.waitForSignal()
          pause()
        }
        guard block > 0 else { continue }
        ours.add(oursStarts.latencies(sampleCount))
        peers.add(peerStarts.latencies(sampleCount))
      }
      session.record(ours, peers, workload: "idle queue", count: sampleCount, peer: "GCD async", target: .ratio(atMost: 1.1))
    }
  }

  static var latencyUnderLoad: Benchmark {
    Benchmark("latency-loaded", "from adding a job to its start, while half of what the machine can do is done") { session in
      let bursts = session.pick(300, quick: 50)
      let perBurst = 25 * ProcessInfo.processInfo.activeProcessorCount
      let work = TwentyMicroseconds()
      let owned = OwnerScopedQueue()
      let dispatch = DispatchQueue(label: "loaded", attributes: .concurrent)
      let screen = Screen()
      var ours = Percentiles()
      var peers = Percentiles()

      func run(_ add: (StartTimes, Int) -> Void, wait: () -> Void) -> [Double] {
        let starts = StartTimes(capacity: bursts * perBurst)
        for burst in 0..<bursts {
          for index in burst * perBurst..<(burst + 1) * perBurst {
            starts.markAdded(index)
            add(starts, index)
          }
          usleep(1000)
        }
        wait()
        return starts.latencies(bursts * perBurst)
      }

      for pair in 0...session.pick(7, quick: 2) {
        let oursLatencies = run { starts, index in
          owned.async(owner: screen) { _ in
            starts.markStarted(index)
            work.perform()
          }
        } wait: {
          owned.waitUntilAllOperationsAreFinished()
        }
        let peerLatencies = run { starts, index in
          dispatch.async { [weak screen] in
            guard screen != nil else { return }
            starts.markStarted(index)
            work.perform()
          }
        } wait: {
          dispatch.sync(flags: .barrier) {}
        }
        guard pair > 0 else { continue }
        ours.add(oursLatencies)
        peers.add(peerLatencies)
      }
      session.record(
        ours, peers, workload: "\(perBurst) jobs of 20 us each ms", count: bursts * perBurst, peer: "GCD, weak check", target: nil)
    }
  }

  /// Long enough for the threads that ran the last job to have gone to sleep.
  private static func pause() { usleep(200) }
}

extension Session {
  fileprivate func record(
    _ ours: Percentiles, _ peers: Percentiles, workload: String, count: Int, peer: String, target: Target?
  ) {
    for (name, path) in [("p50", \Percentiles.middle), ("p99", \.tail)] {
      record(
        "\(workload), \(name)", unit: "us", count: count, ours: "async(owner:)", ours[keyPath: path], peer: peer, peers[keyPath: path],
        target: target)
    }
  }
}

/// Percentiles of blocks of latencies, in microseconds, one of each a block.
struct Percentiles {
  private(set) var middle: [Double] = []
  private(set) var tail: [Double] = []

  mutating func add(_ latencies: [Double]) {
    let sorted = latencies.sorted()
    middle.append(sorted.quantile(0.5) / 1000)
    tail.append(sorted.quantile(0.99) / 1000)
  }
}

/// When jobs were added, and when they started.
final class StartTimes: @unchecked Sendable {  // see the two pointers
  /// Each element is written by the thread that adds the job, before it does.
  private let added: UnsafeMutablePointer<UInt64>
  /// Each element is written by its job alone, and read when the jobs have been waited for.
  private let started: UnsafeMutablePointer<UInt64>
  private let signal = DispatchSemaphore(value: 0)

  init(capacity: Int) {
    added = .allocate(capacity: capacity)
    added.initialize(repeating: 0, count: capacity)
    started = .allocate(capacity: capacity)
    started.initialize(repeating: 0, count: capacity)
  }

  deinit {
    added.deallocate()
    started.deallocate()
  }

  func markAdded(_ index: Int) { added[index] = DispatchTime.now().uptimeNanoseconds }
  func markStarted(_ index: Int) { started[index] = DispatchTime.now().uptimeNanoseconds }

  func markStartedAndSignal(_ index: Int) {
    markStarted(index)
    signal.signal()
  }

  func waitForSignal() { signal.wait() }

  /// Nanoseconds.
  func latencies(_ count: Int) -> [Double] { (0..<count).map { Double(started[$0]) - Double(added[$0]) } }
}

/// Work on bytes that takes some twenty microseconds on this machine.
private struct TwentyMicroseconds: Sendable {
  private let bytes: [UInt8]

  init() {
    let sample = [UInt8](repeating: 0x5a, count: 1 << 16)
    let times = (0..<9).map { _ in nanoseconds { blackHole(sample.crc32) } }
    bytes = [UInt8](repeating: 0x5a, count: max(1, Int(20_000 * Double(sample.count) / times.sorted()[4])))
  }

  func perform() { blackHole(bytes.crc32) }
}
