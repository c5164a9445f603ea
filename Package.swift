// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "OwnedOperations",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "OwnedOperations", targets: ["OwnedOperations"]),
    .executable(name: "ownedops", targets: ["ownedops"]),
  ],
  targets: [
    .target(name: "CDeinitHook"),
    .target(name: "OwnedOperations", dependencies: ["CDeinitHook"]),
    .target(name: "OwnedOpsTool", dependencies: ["OwnedOperations"], path: "Sources/ownedops/Tool"),
    .executableTarget(name: "ownedops", dependencies: ["OwnedOpsTool"], path: "Sources/ownedops/Main"),
    .target(name: "CFoundationLocks", path: "Tests/CFoundationLocks"),
    .testTarget(name: "OwnedOperationsTests", dependencies: ["OwnedOperations", "CFoundationLocks"]),
    .testTarget(name: "OwnedOpsToolTests", dependencies: ["OwnedOpsTool", "ownedops"]),
  ],
  swiftLanguageModes: [.v6]
)
