#ifndef COO_OBJECT_MEMORY_H
#define COO_OBJECT_MEMORY_H

#if !defined(__APPLE__)

#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

/// Whether the object's last strong reference is gone.
_Bool coo_is_deinitialising(void *object);

/// Takes a strong reference and returns the object, or returns null when it is deinitialising. The memory must still be there.
void *_Nullable coo_try_retain(void *object);

/// How many strong references there are to the object. The memory must still be there; writes nothing.
size_t coo_reference_count(void *object);

/// The word of the object in which the runtime keeps all its counts, of strong, unowned and weak references, or says that they are
/// elsewhere. One load, so that they belong together. What it means is the runtime's; two objects with the same have the same counts. Zero
/// where the counts don't fit one word. The memory must still be there; writes nothing.
uint64_t coo_reference_word(void *object);

/// Holds on to the memory of an object, which outlives the object then, until `coo_release_memory`.
void coo_hold_memory(void *object);
void coo_release_memory(void *object);

#pragma clang assume_nonnull end

#endif
#endif
