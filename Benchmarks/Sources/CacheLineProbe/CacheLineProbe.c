#define _GNU_SOURCE

#include "CacheLineProbe.h"

#ifdef __linux__

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { round_trips = 20000, warm_up = 2000 };

struct side {
  _Alignas(128) atomic_int *turn;
  int parity;
  double nanoseconds;
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *write_in_turn(void *argument) {
  struct side *side = argument;
  double start = 0;
  for (int trip = 0; trip < round_trips; trip++) {
    if (trip == warm_up) start = now();
    while (atomic_load_explicit(side->turn, memory_order_acquire) != 2 * trip + side->parity) {}
    atomic_store_explicit(side->turn, 2 * trip + side->parity + 1, memory_order_release);
  }
  side->nanoseconds = now() - start;
  return NULL;
}

static int start_on(int processor, struct side *side, pthread_t *thread) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(processor, &processors);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  int is_started = pthread_attr_setaffinity_np(&attributes, sizeof processors, &processors) == 0 &&
                   pthread_create(thread, &attributes, write_in_turn, side) == 0;
  pthread_attr_destroy(&attributes);
  return is_started;
}

double cache_line_transfer_nanoseconds(void) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  int chosen[2], count = 0;
  for (int processor = 0; processor < CPU_SETSIZE && count < 2; processor++) {
    if (CPU_ISSET(processor, &allowed)) chosen[count++] = processor;
  }
  if (count < 2) return -1;
  _Alignas(128) atomic_int turn = 0;
  struct side sides[2] = {{&turn, 0, 0}, {&turn, 1, 0}};
  pthread_t threads[2];
  if (!start_on(chosen[0], &sides[0], &threads[0])) return -1;
  if (!start_on(chosen[1], &sides[1], &threads[1])) {
    write_in_turn(&sides[1]);  // or the first would wait for ever
    pthread_join(threads[0], NULL);
    return -1;
  }
  for (int side = 0; side < 2; side++) pthread_join(threads[side], NULL);
  return sides[0].nanoseconds / (2.0 * (round_trips - warm_up));
}

#else

double cache_line_transfer_nanoseconds(void) { return -1; }

#endif
