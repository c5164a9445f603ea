#ifndef C_FOUNDATION_LOCKS_H
#define C_FOUNDATION_LOCKS_H

#include <stdbool.h>
#include <stddef.h>

/// Has every lock that Foundation takes be counted from now on: the call of `pthread_mutex_lock` (and of its kin) in its shared library
/// goes through a counter. Any number of times, any thread. Returns false where there is no such library (another platform, or Foundation
/// linked in statically).
bool foundation_locks_count(void);

/// Has the time of day be an hour later for Dispatch than for the kernel from now on: what it waits for by that clock lasts an hour longer,
/// as when the clock is set back by an hour while it waits. Returns false where there is no such library.
bool dispatch_clock_is_ahead(void);

/// How many locks Foundation has taken on this thread.
size_t foundation_locks_on_this_thread(void);

/// How many locks Foundation has taken on all threads.
size_t foundation_locks_on_all_threads(void);

/// How many bytes are allocated, over all of the C library's heaps; 0 where that can't be asked.
size_t allocated_bytes(void);

#endif
