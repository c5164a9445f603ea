#include "coo_object_memory.h"

#if !defined(__APPLE__)

// Exported by the Swift runtime (libswiftCore).
extern _Bool swift_isDeallocating(void *object);
extern void *swift_tryRetain(void *object);

extern size_t swift_retainCount(void *object);

size_t coo_reference_count(void *object) { return swift_retainCount(object); }
uint64_t coo_reference_word(void *object) {
#if defined(__LP64__)
  return __atomic_load_n((uint64_t *)object + 1, __ATOMIC_RELAXED);  // behind the pointer to its class
#else
  return 0;
#endif
}
_Bool coo_is_deinitialising(void *object) { return swift_isDeallocating(object); }
void *coo_try_retain(void *object) { return swift_tryRetain(object); }

extern void *swift_unownedRetain(void *object);
extern void swift_unownedRelease(void *object);

void coo_hold_memory(void *object) { swift_unownedRetain(object); }
void coo_release_memory(void *object) { swift_unownedRelease(object); }

#endif
