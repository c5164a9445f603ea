import Foundation

/// How many files this process may have open at a time; `Int.max` if there is no limit.
enum DescriptorLimit {
  static let current = System.descriptorLimit.flatMap { $0 < rlim_t(Int32.max) ? Int($0) : nil } ?? .max
}

/// How long files of this process may get; `Int.max` if there is no limit.
enum FileLengthLimit {
  static let current = System.fileLengthLimit.flatMap { $0 < rlim_t(Int.max) ? Int($0) : nil } ?? .max
}
