#if !canImport(ObjectiveC)
  import COwnedOperations

  extension DeinitRegistry {
    /// Makes sure that the registry hears of the object's end. False where the class can't be made to tell.
    func prepare(_ object: AnyObject) -> Bool {
      coo_hook_class_of(Borrowed(object).address) { DeinitRegistry.shared.objectDeinitialises($0) }
    }

    static func isDeinitialising(_ object: AnyObject) -> Bool {
      coo_is_deinitialising(Borrowed(object).address)
    }
  }

  extension DeinitHookMechanism {
    static func detect() -> DeinitHookMechanism { DeinitSelfCheck.passes() ? .classMetadata : .weakReference }
  }
#endif
