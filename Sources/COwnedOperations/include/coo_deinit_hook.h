#ifndef COO_DEINIT_HOOK_H
#define COO_DEINIT_HOOK_H

#if !defined(__APPLE__)

#pragma clang assume_nonnull begin

/// What runs in the deallocation of every instance of a hooked class, before the class's own destroyer.
/// `object` is whole, and already marked as deinitialising.
typedef void (*coo_callback)(void *object);

/// Makes the class (or other heap metadata) of `object` call `callback` for every instance that dies from now on.
/// Quick, and without a lock, when that has been done before. The first callback of a class stays.
/// Returns false where nothing was changed: there is no destroyer at the place we know, the metadata lies in memory that can't be made
/// writable, or there was no memory for our record of the class.
_Bool coo_hook_class_of(void *object, coo_callback callback);

/// Puts the class's own destroyer back. Instances that are dying on other threads may still reach the callback.
void coo_unhook_class_of(void *object);

/// Whether instances of the class of `object` die through us at the moment.
_Bool coo_is_class_hooked(void *object);

/// Whether the destroyer word of the class of `object` points into code of this process: the first question of the self-check.
_Bool coo_destroyer_is_code(void *object);

#pragma clang assume_nonnull end

#endif
#endif
