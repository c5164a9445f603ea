import Foundation

/// Files with the same content, in the order of their paths.
struct DuplicateGroup: Sendable {
  let size: Int
  let files: [Member]

  struct Member: @unchecked Sendable {  // nobody writes the directory any more
    let directory: DirectoryNode
    let file: DirectoryNode.File
    var name: [UInt8] { directory.name(of: file) }
    var path: [UInt8] { directory.path(of: name) }
  }

  /// What would be free if one were left.
  var excess: Int {
    let (product, isTooMuch) = size.multipliedReportingOverflow(by: files.count - 1)
    return isTooMuch ? .max : product
  }
}
