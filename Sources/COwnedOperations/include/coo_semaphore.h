#ifndef COO_SEMAPHORE_H
#define COO_SEMAPHORE_H

#if defined(__linux__)

#include <stdint.h>

/// A semaphore whose waits in time go by the monotonic clock: setting the time of day neither draws them out nor cuts them short. (Those of
/// glibc's `sem_timedwait` and libdispatch's go by the time of day on Linux.) Zero at first. Any thread.
///
/// Low half: the value. High half: how many threads wait. `coo_semaphore_signal` reads both with the addition, and doesn't touch the memory
/// after that: whoever was let through may have freed it. The address, too, is only handed to the kernel, which wakes somebody who waits
/// there, and who looks again.
///
/// A signal releases what its thread wrote before, and the wait that it lets through acquires it.
struct coo_semaphore {
  uint64_t word;
};

#define COO_FOREVER UINT64_MAX

void coo_semaphore_signal(struct coo_semaphore *_Nonnull semaphore);

/// - deadline: in nanoseconds of the monotonic clock, or COO_FOREVER.
/// Returns false if nobody has signalled until then.
_Bool coo_semaphore_wait(struct coo_semaphore *_Nonnull semaphore, uint64_t deadline);

#endif
#endif
