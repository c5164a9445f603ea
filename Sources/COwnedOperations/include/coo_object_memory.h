#ifndef COO_OBJECT_MEMORY_H
#define COO_OBJECT_MEMORY_H

#if !defined(__APPLE__)

#include <stddef.h>

#pragma clang assume_nonnull begin

/// Whether the object's last strong reference is gone.
_Bool coo_is_deinitialising(void *object);

/// Takes a strong reference and returns the object, or returns null when it is deinitialising. The memory must still be there.
void *_Nullable coo_try_retain(void *object);

/// How many strong references there are to the object. The memory must still be there; writes nothing.
size_t coo_reference_count(void *object);

/// Whether there is one reference to the object, strong, unowned and weak ones all told. Then nobody else can come by another. The memory
/// must still be there; writes nothing.
_Bool coo_has_one_reference(void *object);

/// Holds on to the memory of an object, which outlives the object then, until `coo_release_memory`.
void coo_hold_memory(void *object);
void coo_release_memory(void *object);

#pragma clang assume_nonnull end

#endif
#endif
