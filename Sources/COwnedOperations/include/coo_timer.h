#ifndef COO_TIMER_H
#define COO_TIMER_H

#if defined(__linux__)

#include <stdint.h>

/// A timer that a thread waits for in the kernel, and that any thread sets anew without waking it. By the monotonic clock. Not inherited by
/// other programs.

/// Returns a file descriptor, or -1 if there is none to be had.
int coo_timer_make(void);

/// - time: in nanoseconds of the monotonic clock; one that has passed is at once, UINT64_MAX is never. What went off and was not waited for
///   is forgotten.
void coo_timer_set(int timer, uint64_t time);

/// Returns true when it has gone off, false if it can't be waited for.
_Bool coo_timer_wait(int timer);

void coo_timer_close(int timer);

#endif
#endif
