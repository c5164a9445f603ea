/// Stands for what the model checker can't see, such as the runtime's count of an object's references. Who is about to touch that passes
/// the point.
///
/// In any other build it takes no space and no time.
struct ModelPoint: Sendable {
  #if OWNED_OPERATIONS_MODEL
    private let object = ModelObject("unseen")

    func pass(file: StaticString = #fileID, line: UInt = #line) { ModelRun.point("touch", object, .write, file, line) }
  #else
    @inline(__always)
    func pass() {}
  #endif
}
