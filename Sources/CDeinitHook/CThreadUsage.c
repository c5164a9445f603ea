#define _GNU_SOURCE
#include "CDeinitHook.h"

#if defined(__linux__)
#include <sys/resource.h>

_Bool cdh_thread_usage(uint64_t *processor_time, uint64_t *voluntary_switches) {
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
  uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
  uint64_t microseconds = (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  *processor_time = seconds * 1000000000 + microseconds * 1000;
  *voluntary_switches = (uint64_t)usage.ru_nvcsw;
  return 1;
}

#endif
