// Stands in for what the Objective-C runtime and Apple's Foundation offer, so that the code for these platforms can be type-checked where
// they are not. See check-darwin. Nothing here is ever run.

import Foundation

func CFGetRetainCount(_ object: AnyObject?) -> Int { 0 }

func autoreleasepool<Result>(invoking body: () throws -> Result) rethrows -> Result { try body() }

@discardableResult func objc_sync_enter(_ object: Any) -> Int32 { 0 }
@discardableResult func objc_sync_exit(_ object: Any) -> Int32 { 0 }
func objc_getAssociatedObject(_ object: Any, _ key: UnsafeRawPointer) -> Any? { nil }
func objc_setAssociatedObject(_ object: Any, _ key: UnsafeRawPointer, _ value: Any?, _ policy: objc_AssociationPolicy) {}

enum objc_AssociationPolicy {
  case OBJC_ASSOCIATION_RETAIN
}

public class NSKeyValueObservation: NSObject {
  func invalidate() {}
}

public struct NSKeyValueObservedChange<Value> {}

public struct NSKeyValueObservingOptions: OptionSet, Sendable {
  public let rawValue: UInt
  public init(rawValue: UInt) { self.rawValue = rawValue }
  static let initial = NSKeyValueObservingOptions(rawValue: 4)
}

extension Operation {
  func observe<Value>(
    _ keyPath: KeyPath<Operation, Value>, options: NSKeyValueObservingOptions,
    changeHandler: @escaping @Sendable (Operation, NSKeyValueObservedChange<Value>) -> Void
  ) -> NSKeyValueObservation { NSKeyValueObservation() }

  func willChangeValue(forKey key: String) {}
}

extension NSObjectProtocol where Self: NSObject {
  func observe<Value>(
    _ keyPath: KeyPath<Self, Value>, options: NSKeyValueObservingOptions,
    changeHandler: @escaping @Sendable (Self, NSKeyValueObservedChange<Value>) -> Void
  ) -> NSKeyValueObservation { NSKeyValueObservation() }
}
