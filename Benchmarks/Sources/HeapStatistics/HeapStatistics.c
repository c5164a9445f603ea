#include "HeapStatistics.h"

#ifdef __linux__
#include <malloc.h>
#endif

int64_t heap_bytes_in_use(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  struct mallinfo2 info = mallinfo2();
  return (int64_t)(info.uordblks + info.hblkhd);
#else
  return -1;
#endif
}

void heap_trim(void) {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}
