#define _GNU_SOURCE
#include "coo_thread_usage.h"

#if defined(__linux__)
#include <sys/resource.h>

_Bool coo_thread_usage(struct coo_usage *usage) {
  struct rusage found;
  if (getrusage(RUSAGE_THREAD, &found) != 0) return 0;
  uint64_t seconds = (uint64_t)(found.ru_utime.tv_sec + found.ru_stime.tv_sec);
  uint64_t microseconds = (uint64_t)(found.ru_utime.tv_usec + found.ru_stime.tv_usec);
  usage->processor_time = seconds * 1000000000 + microseconds * 1000;
  usage->voluntary_switches = (uint64_t)found.ru_nvcsw;
  usage->involuntary_switches = (uint64_t)found.ru_nivcsw;
  return 1;
}

#endif
