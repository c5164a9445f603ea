#include "coo_object_memory.h"

#if !defined(__APPLE__)

// Exported by the Swift runtime (libswiftCore).
extern _Bool swift_isDeallocating(void *object);
extern void *swift_tryRetain(void *object);

extern size_t swift_retainCount(void *object);
extern size_t swift_unownedRetainCount(void *object);
extern size_t swift_weakRetainCount(void *object);

size_t coo_reference_count(void *object) { return swift_retainCount(object); }
_Bool coo_has_one_reference(void *object) {
  // The strong references together count as one unowned, and the unowned together as one weak.
  return swift_retainCount(object) == 1 && swift_unownedRetainCount(object) == 1 && swift_weakRetainCount(object) == 1;
}
_Bool coo_is_deinitialising(void *object) { return swift_isDeallocating(object); }
void *coo_try_retain(void *object) { return swift_tryRetain(object); }

extern void *swift_unownedRetain(void *object);
extern void swift_unownedRelease(void *object);

void coo_hold_memory(void *object) { swift_unownedRetain(object); }
void coo_release_memory(void *object) { swift_unownedRelease(object); }

#endif
