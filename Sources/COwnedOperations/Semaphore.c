#if defined(__linux__)

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "coo_semaphore.h"

static const uint64_t one_waiter = UINT64_C(1) << 32;

static _Atomic(uint64_t) *word_of(struct coo_semaphore *semaphore) { return (_Atomic(uint64_t) *)&semaphore->word; }

// The half that holds the value.
static uint32_t *value_of(struct coo_semaphore *semaphore) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return (uint32_t *)&semaphore->word;
#else
  return (uint32_t *)&semaphore->word + 1;
#endif
}

void coo_semaphore_signal(struct coo_semaphore *semaphore) {
  uint32_t *value = value_of(semaphore);
  uint64_t former = atomic_fetch_add_explicit(word_of(semaphore), 1, memory_order_release);
  if (former >> 32) syscall(SYS_futex, value, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

// Takes one from the value, if there is one, and `also` from the word.
static _Bool take(struct coo_semaphore *semaphore, uint64_t also) {
  uint64_t current = atomic_load_explicit(word_of(semaphore), memory_order_relaxed);
  while ((uint32_t)current > 0) {
    if (atomic_compare_exchange_weak_explicit(
            word_of(semaphore), &current, current - 1 - also, memory_order_acquire, memory_order_relaxed))
      return 1;
  }
  return 0;
}

_Bool coo_semaphore_wait(struct coo_semaphore *semaphore, uint64_t deadline) {
  if (take(semaphore, 0)) return 1;
  struct timespec time = {.tv_sec = (time_t)(deadline / 1000000000), .tv_nsec = (long)(deadline % 1000000000)};
  atomic_fetch_add_explicit(word_of(semaphore), one_waiter, memory_order_relaxed);
  while (!take(semaphore, one_waiter)) {
    // Sleeps while the value is zero, until an absolute time.
    long status = syscall(
        SYS_futex, value_of(semaphore), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, deadline == COO_FOREVER ? NULL : &time, NULL,
        FUTEX_BITSET_MATCH_ANY);
    if (status != -1 || errno != ETIMEDOUT) continue;
    if (take(semaphore, one_waiter)) return 1;
    // Whoever signals from now on may find a waiter less than it counted: it wakes nobody then, or one who looks again.
    atomic_fetch_sub_explicit(word_of(semaphore), one_waiter, memory_order_relaxed);
    return 0;
  }
  return 1;
}

#endif
