#ifndef C_DEINIT_HOOK_H
#define C_DEINIT_HOOK_H

#if !defined(__APPLE__)
/// Adds a strong reference to a native Swift object, or returns NULL when its last one has gone.
/// The object's memory must still be there.
void *cdh_try_retain(void *object);
#endif

#endif
