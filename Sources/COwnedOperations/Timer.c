#if defined(__linux__)

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "coo_timer.h"

int coo_timer_make(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC); }

void coo_timer_set(int timer, uint64_t time) {
  struct itimerspec setting = {0};  // never
  if (time != UINT64_MAX) {
    if (time == 0) time = 1;  // zero would be never
    setting.it_value = (struct timespec){.tv_sec = (time_t)(time / 1000000000), .tv_nsec = (long)(time % 1000000000)};
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, NULL);
}

_Bool coo_timer_wait(int timer) {
  uint64_t count;
  ssize_t length;
  do {
    length = read(timer, &count, sizeof count);
  } while (length == -1 && errno == EINTR);
  return length == sizeof count;
}

void coo_timer_close(int timer) { close(timer); }

#endif
