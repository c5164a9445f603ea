// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "OwnedOperations",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "OwnedOperations", targets: ["OwnedOperations"])
  ],
  targets: [
    .target(name: "CDeinitHook"),
    .target(name: "OwnedOperations", dependencies: ["CDeinitHook"]),
    .testTarget(name: "OwnedOperationsTests", dependencies: ["OwnedOperations"]),
  ],
  swiftLanguageModes: [.v6]
)
