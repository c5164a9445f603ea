// swift-tools-version: 6.2
import Foundation
import PackageDescription

/// oneTBB is compared with where it is installed, and left out where it is not; the program says so when it runs.
let hasOneTBB = ["/usr/include/oneapi/tbb/flow_graph.h", "/usr/include/tbb/flow_graph.h"]
  .contains { FileManager.default.fileExists(atPath: $0) }

let package = Package(
  name: "Benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [.package(name: "OwnedOperations", path: "..")],
  targets: [
    .executableTarget(
      name: "benchmarks",
      dependencies: [
        .product(name: "OwnedOperations", package: "OwnedOperations"), .product(name: "OwnedRequests", package: "OwnedOperations"),
        "HeapStatistics", "CacheLineProbe",
      ]
        + (hasOneTBB ? ["OneTBBPeer"] : []),
      swiftSettings: hasOneTBB ? [.define("ONETBB")] : []
    ),
    .executableTarget(
      name: "soak", dependencies: [.product(name: "OwnedOperations", package: "OwnedOperations"), "HeapStatistics"]),
    .target(name: "HeapStatistics"),
    .target(name: "CacheLineProbe"),
  ]
    + (hasOneTBB ? [.target(name: "OneTBBPeer", linkerSettings: [.linkedLibrary("tbb")])] : []),
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx17
)

// As in the package that is measured.
if ProcessInfo.processInfo.environment["OWNED_OPERATIONS_STRICT"] == "1" {
  for target in package.targets {
    target.cSettings = (target.cSettings ?? []) + [.treatAllWarnings(as: .error)]
    target.cxxSettings = (target.cxxSettings ?? []) + [.treatAllWarnings(as: .error)]
    target.swiftSettings = (target.swiftSettings ?? []) + [.treatAllWarnings(as: .error)]
  }
}
