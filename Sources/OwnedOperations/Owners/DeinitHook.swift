/// One closure that waits for the end of one object; made by ``onDeinit(of:name:perform:ifRefused:)``.
///
/// A value without references: keeping it keeps neither the object nor the closure alive. Equal when the identifiers are.
public struct DeinitHook: Hashable, Sendable {
  /// Never used twice in a process. Hooks of one object run in the order of their identifiers, which is that of their installation.
  public let identifier: UInt64

  /// The address of the object; 0 for a hook that was refused.
  let key: UInt

  /// Lets go of the closure, so that it never runs. From any thread, also from inside another hook of the same object.
  ///
  /// - Returns: true if this call removed a hook that had not run. False if it has run, runs just now, or was cancelled, replaced or
  ///   refused.
  /// - Complexity: linear in the hooks of the object.
  @discardableResult
  public func cancel() -> Bool { DeinitRegistry.shared.cancel(self) }

  /// Whether the hook still waits for its object's end: not once it runs, nor when it was cancelled, replaced or refused.
  public var isInstalled: Bool { DeinitRegistry.shared.isInstalled(self) }

  /// How this process learns that an object ends.
  public static var mechanism: DeinitHookMechanism { DeinitRegistry.shared.mechanism }

  /// Hooks are equal if they are the same hook.
  public static func == (left: DeinitHook, right: DeinitHook) -> Bool { left.identifier == right.identifier }
  /// Hashes which hook it is.
  public func hash(into hasher: inout Hasher) { hasher.combine(identifier) }
}

/// How the end of an object that stores no token is noticed. Found out once, at first use.
public enum DeinitHookMechanism: Sendable {
  /// The object's class tells, before the deinit body. Where there is no Objective-C runtime.
  case classMetadata
  /// Something associated with the object tells, as it is released, after the deinit body. Where there is an Objective-C runtime.
  case associatedObject
  /// Nobody tells. Lifetimes of such objects still know, by a weak reference, that they have ended. Hooks can't be installed.
  case weakReference
}

/// Why a hook was refused.
public enum DeinitHookError: Error, Equatable, CustomStringConvertible {
  /// The object's last reference is gone: its deinit body, or one of its hooks, is running.
  case objectIsDeinitialising(type: String)
  /// The object's class lies in memory that can't be changed, or the type is a foreign one, whose instances are no Swift objects.
  case classCannotBeHooked(type: String)
  /// ``DeinitHook/mechanism`` is ``DeinitHookMechanism/weakReference``.
  case hooksUnavailable(type: String)

  /// What was attempted, what is wrong with it, and what to do.
  public var description: String {
    switch self {
    case .objectIsDeinitialising(let type):
      "can't install a deinit hook on an instance of \(type) that is already deinitialising: install it while the object is referenced, "
        + "or do the work in its deinit"
    case .classCannotBeHooked(let type):
      "can't install a deinit hook on an instance of \(type): its class can't be changed; store an OwnerLifetime.Token in it instead"
    case .hooksUnavailable(let type):
      "can't install a deinit hook on an instance of \(type): this Swift runtime lays out classes in a way this library does not know; "
        + "store an OwnerLifetime.Token in it instead"
    }
  }
}

/// Runs a closure once, when an object deinitialises. Any object: no subclassing, no stored property.
///
/// ```swift
/// final class Connection { let peer = "10.0.0.7" }
/// let connection = Connection()
/// onDeinit(of: connection) { connection, _ in
///   print("lost", connection._withUnsafeGuaranteedRef { $0.peer })
/// }
/// ```
///
/// The closure runs on the thread that drops the last reference, before the object's deinit body (its subclass's first). The object is
/// still whole: its members can be read through the `Unmanaged`. It can't be saved any more: weak references to it are nil, and a strong
/// reference that is still held when the closure returns dangles. If it is held until the deinit has ended, the Swift runtime stops the
/// process with "deallocated with non-zero retain count". Where ``DeinitHook/mechanism`` is ``DeinitHookMechanism/associatedObject``, it
/// runs after the deinit body, and only the address may be used.
///
/// If the object belongs to an actor, to the main one for example, that thread may be another than the actor's. That holds for an isolated
/// deinit, too: the hooks run before it. Then read only what is `nonisolated`, see <doc:OwnersOnActors>.
///
/// Several hooks of one object run in order of identifier. From inside, hooks of any object may be added or cancelled (also later hooks of
/// the same object), and last references to others dropped. Adding to the same object is refused. What the closure captured is released
/// right after it ran, or when it is cancelled. Objects that never deinitialise, such as static ones, never run their hooks.
///
/// An object that is deinitialising, and one whose class can't be hooked, are refused. Then the returned hook is not
/// ``DeinitHook/isInstalled``, nothing has changed, and `ifRefused` is told why.
///
/// Costs one small allocation beside the closure. Other instances of the class pay a few nanoseconds each when they end, and no lock.
///
/// - Parameters:
///   - object: not kept alive, unless the closure captures it.
///   - name: replaces the hook of the same object that has the same name, if any.
///   - body: gets the object, and the hook that runs.
///   - report: called at once, on this thread, if there will be no hook. By default a line on standard error says why.
/// - Complexity: constant on average; with a name, linear in the hooks of the object.
@discardableResult
public func onDeinit<Object: AnyObject>(
  of object: Object, name: String? = nil, perform body: @escaping @Sendable (Unmanaged<Object>, DeinitHook) -> Void,
  ifRefused report: ((DeinitHookError) -> Void)? = nil
) -> DeinitHook {
  do {
    return try install(body, named: name, on: object)
  } catch {
    if let report { report(error) } else { Platform.writeToStandardError("OwnedOperations: \(error)\n") }
    return DeinitHook(identifier: DeinitRegistry.nextIdentifier(), key: 0)
  }
}

/// Runs a closure once, when an object deinitialises, or says why it can't.
///
/// When and where the closure runs, and what it may do, is told at ``onDeinit(of:name:perform:ifRefused:)``.
///
/// - Parameters:
///   - object: not kept alive, unless the closure captures it.
///   - name: replaces the hook of the same object that has the same name, if any.
///   - body: gets the object, and the hook that runs.
/// - Returns: the hook, which is installed.
/// - Throws: ``DeinitHookError`` if the object is deinitialising, or its class can't be hooked. Nothing has changed then.
/// - Complexity: constant on average; with a name, linear in the hooks of the object.
@available(*, deprecated, message: "Call onDeinit(of:name:perform:ifRefused:), which tells the last closure why it can't")
@discardableResult
public func installDeinitHook<Object: AnyObject>(
  of object: Object, name: String? = nil, perform body: @escaping @Sendable (Unmanaged<Object>, DeinitHook) -> Void
) throws(DeinitHookError) -> DeinitHook { try install(body, named: name, on: object) }

private func install<Object: AnyObject>(
  _ body: @escaping @Sendable (Unmanaged<Object>, DeinitHook) -> Void, named name: String?, on object: Object
) throws(DeinitHookError) -> DeinitHook {
  guard !isForeign(Object.self) else { throw .classCannotBeHooked(type: String(describing: Object.self)) }
  // An `Unmanaged` is one pointer whatever the object, and is passed as such. So the closure can be called with the class forgotten, which
  // saves wrapping it in another.
  let erased = unsafeBitCast(TypedBody(call: body), to: ErasedBody.self)
  return try DeinitRegistry.shared.install(on: object, name: name, body: erased.call)
}

/// A closure in a struct keeps its own calling convention when it is cast. Bare, it would be wrapped in another for the cast, and again
/// behind it.
private struct TypedBody<Object: AnyObject> { let call: @Sendable (Unmanaged<Object>, DeinitHook) -> Void }
private struct ErasedBody { let call: DeinitHookNode.Body }

/// Lets go of all hooks of an object, so that they never run. The object's lifetime, if it has one, stays.
/// - Complexity: linear in the hooks of the object.
public func cancelDeinitHooks(of object: AnyObject) { DeinitRegistry.shared.cancelHooks(of: object) }

/// Whether instances are C++ or Core Foundation objects, which have no Swift class to hook. The first word of a type's metadata
/// is its kind.
private func isForeign(_ type: (some AnyObject).Type) -> Bool {
  let kind = unsafeBitCast(type, to: UnsafePointer<UInt>.self).pointee
  return kind == 0x203 || kind == 0x204
}
