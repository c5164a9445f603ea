import Foundation

/// How many files this process may have open at a time; `Int.max` if there is no limit.
enum DescriptorLimit {
  static let current: Int = {
    var limit = rlimit()
    #if canImport(Darwin)
      let isKnown = getrlimit(RLIMIT_NOFILE, &limit) == 0
    #else
      let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    #endif
    return isKnown && limit.rlim_cur < rlim_t(Int32.max) ? Int(limit.rlim_cur) : .max
  }()
}

/// How long files of this process may get; `Int.max` if there is no limit.
enum FileLengthLimit {
  static let current: Int = {
    var limit = rlimit()
    #if canImport(Darwin)
      let isKnown = getrlimit(RLIMIT_FSIZE, &limit) == 0
    #else
      let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0
    #endif
    return isKnown && limit.rlim_cur < rlim_t(Int.max) ? Int(limit.rlim_cur) : .max
  }()
}
