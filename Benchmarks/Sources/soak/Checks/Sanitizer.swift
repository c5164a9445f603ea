import Foundation

/// Whether the program was built with a sanitizer.
enum Sanitizer {
  static let isThere = ["__asan_init", "__tsan_init"].contains { (name: String) in dlsym(dlopen(nil, RTLD_NOW), name) != nil }
}
