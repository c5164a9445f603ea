// swift-tools-version: 6.2
import Foundation
import PackageDescription

// The model build swaps the primitives of the lowest room for those of the model checker; see Documentation/CORRECTNESS.md.
let isModel = ProcessInfo.processInfo.environment["OWNED_OPERATIONS_MODEL"] == "1"

// Without the tool, whose tests start other programs most of the time: for builds with a sanitizer, or optimised.
let isLibrariesOnly = isModel || ProcessInfo.processInfo.environment["OWNED_OPERATIONS_LIBRARIES"] == "1"

// With the random work of `Benchmarks`, which a build with a sanitizer would else be made for. That package can't have this one with it.
let hasSoak = ProcessInfo.processInfo.environment["OWNED_OPERATIONS_SOAK"] == "1"

// Before a change lands, no warning may be left; who builds the package for their own use is not stopped by one of a newer compiler.
let isStrict = ProcessInfo.processInfo.environment["OWNED_OPERATIONS_STRICT"] == "1"

let package = Package(
  name: "OwnedOperations",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: isModel
    ? []
    : [
      .library(name: "OwnedOperations", targets: ["OwnedOperations"]),
      .library(name: "OwnedRequests", targets: ["OwnedRequests"]),
      .library(name: "OwnedOperationsTesting", targets: ["OwnedOperationsTesting"]),
    ] + (isLibrariesOnly ? [] : [.executable(name: "ownedops", targets: ["ownedops"])]),
  targets: [
    .target(name: "COwnedOperations"),
    .target(
      name: "OwnedOperations", dependencies: ["COwnedOperations"],
      swiftSettings: isModel ? [.define("OWNED_OPERATIONS_MODEL")] : []),
  ]
    + (isModel
      ? [
        // Of the requests what has a protocol between threads. `TransferSession+Model` stands in for the network, `RequestClient+Model` for
        // timers and other threads.
        .target(
          name: "OwnedRequests", dependencies: ["OwnedOperations"],
          exclude: ["OwnedRequests.docc", "Download/DownloadSessions.swift"]
            + ["RequestClient", "RequestClient+Downloads", "RequestClient+Surroundings"].map { "Client/\($0).swift" }
            + ["DelegateQueue+Linux", "SessionPlatform+Darwin", "SessionPlatform+Linux", "SocketQueuePause+Linux", "TransferSession"]
            .map { "Transfer/\($0).swift" }
            + ["OneShotTimer", "TimerLine"].map { "Support/\($0).swift" },
          swiftSettings: [.define("OWNED_OPERATIONS_MODEL")]),
        .testTarget(name: "OwnedOperationsModelTests", dependencies: ["OwnedOperations", "OwnedRequests"]),
      ]
      : [
        .target(name: "OwnedRequests", dependencies: ["OwnedOperations", "COwnedOperations"]),
        .target(name: "OwnedOperationsTesting", dependencies: ["OwnedOperations"]),
        .target(name: "CFoundationLocks", path: "Tests/CFoundationLocks"),
        .testTarget(name: "OwnedOperationsTests", dependencies: ["OwnedOperations", "CFoundationLocks"]),
        .testTarget(name: "OwnedRequestsTests", dependencies: ["OwnedRequests"]),
        .testTarget(name: "OwnedOperationsTestingTests", dependencies: ["OwnedOperationsTesting", "OwnedRequests"]),
      ])
    + (hasSoak && !isModel
      ? [
        .executableTarget(name: "soak", dependencies: ["OwnedOperations", "HeapStatistics"], path: "Benchmarks/Sources/soak"),
        .target(name: "HeapStatistics", path: "Benchmarks/Sources/HeapStatistics"),
      ] : [])
    + (isLibrariesOnly
      ? []
      : [
        .target(name: "OwnedOpsTool", dependencies: ["OwnedOperations", "OwnedRequests"], path: "Sources/ownedops/Tool"),
        .executableTarget(name: "ownedops", dependencies: ["OwnedOpsTool"], path: "Sources/ownedops/Main"),
        .testTarget(name: "OwnedOpsToolTests", dependencies: ["OwnedOpsTool", "ownedops"]),
      ]),
  swiftLanguageModes: [.v6]
)

// Optimised tests are about optimised libraries. With their own code optimised, too, they take more than twice as long to build.
for target in package.targets where target.isTest && !isModel {
  let plainly = ["-Onone", "-no-whole-module-optimization", "-enable-batch-mode"]
  target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(plainly, .when(configuration: .release))]
}

// A third of the time of a run of the model. What accesses may overlap, other builds find.
for target in package.targets where target.type != .system && isModel {
  target.swiftSettings = (target.swiftSettings ?? []) + [.unsafeFlags(["-enforce-exclusivity=unchecked"])]
}

if isStrict {
  for target in package.targets {
    target.cSettings = (target.cSettings ?? []) + [.treatAllWarnings(as: .error)]
    target.swiftSettings = (target.swiftSettings ?? []) + [.treatAllWarnings(as: .error)]
  }
}
