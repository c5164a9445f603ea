#ifndef COO_THREAD_USAGE_H
#define COO_THREAD_USAGE_H

#if defined(__linux__)

#include <stdint.h>

/// What a thread has used so far: processor time in nanoseconds, how often it gave its processor away by itself, and how often it had to.
struct coo_usage {
  uint64_t processor_time;
  uint64_t voluntary_switches;
  uint64_t involuntary_switches;
};

/// Of the calling thread. Returns false where that can't be told.
_Bool coo_thread_usage(struct coo_usage *_Nonnull usage);

#endif
#endif
