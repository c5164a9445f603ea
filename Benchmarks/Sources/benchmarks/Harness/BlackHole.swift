/// Has the compiler compute a value that nobody uses.
@inline(never)
@_optimize(none)
func blackHole<Value>(_ value: Value) {}
