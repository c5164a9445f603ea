#ifndef C_DEINIT_HOOK_H
#define C_DEINIT_HOOK_H

/// Tells the processor that this thread looks at something again and again: some ten nanoseconds without work, which the other thread of
/// the core can use.
static inline void cdh_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

/// What each thread carries along: a pointer for each purpose, null at first.
extern _Thread_local void *_Nullable cdh_thread_slots[9];

static inline void *_Nullable cdh_thread_slot(int index) { return cdh_thread_slots[index]; }
static inline void cdh_set_thread_slot(int index, void *_Nullable value) { cdh_thread_slots[index] = value; }

/// Something that this thread is inside of, and the call that has brought it there.
struct cdh_use {
  const void *_Nullable object;
  const char *_Nullable call;
  const char *_Nullable file;
  unsigned long line;
};

/// How deep uses can be nested.
#define CDH_MOST_USES 16

extern _Thread_local int cdh_use_count;
extern _Thread_local struct cdh_use cdh_uses[CDH_MOST_USES];

static inline int cdh_count_of_uses(void) { return cdh_use_count; }
static inline struct cdh_use cdh_use_at(int index) { return cdh_uses[index]; }
/// There must be fewer than CDH_MOST_USES.
static inline void cdh_push_use(struct cdh_use use) { cdh_uses[cdh_use_count++] = use; }
static inline void cdh_pop_use(void) { cdh_use_count--; }
/// The index of the innermost use of the object; -1 if this thread is not inside of one.
static inline int cdh_find_use(const void *_Nonnull object) {
  for (int index = cdh_use_count - 1; index >= 0; index--) {
    if (cdh_uses[index].object == object) return index;
  }
  return -1;
}

#if defined(__linux__)

#include <stdint.h>

/// A semaphore whose waits in time go by the monotonic clock: setting the time of day neither draws them out nor cuts them short. (Those of
/// glibc's `sem_timedwait` and libdispatch's go by the time of day on Linux.) Zero at first. Any thread.
///
/// Low half: the value. High half: how many threads wait. `cdh_semaphore_signal` reads both with the addition, and doesn't touch the memory
/// after that: whoever was let through may have freed it. The address, too, is only handed to the kernel, which wakes somebody who waits
/// there, and who looks again.
///
/// A signal releases what its thread wrote before, and the wait that it lets through acquires it.
struct cdh_semaphore {
  uint64_t word;
};

#define CDH_FOREVER UINT64_MAX

void cdh_semaphore_signal(struct cdh_semaphore *_Nonnull semaphore);

/// - deadline: in nanoseconds of the monotonic clock, or CDH_FOREVER.
/// Returns false if nobody has signalled until then.
_Bool cdh_semaphore_wait(struct cdh_semaphore *_Nonnull semaphore, uint64_t deadline);

/// What a thread has used so far: processor time in nanoseconds, how often it gave its processor away by itself, and how often it had to.
struct cdh_usage {
  uint64_t processor_time;
  uint64_t voluntary_switches;
  uint64_t involuntary_switches;
};

/// Of the calling thread. Returns false where that can't be told.
_Bool cdh_thread_usage(struct cdh_usage *_Nonnull usage);

#endif

#if !defined(__APPLE__)

#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

/// What runs in the deallocation of every instance of a hooked class, before the class's own destroyer.
/// `object` is whole, and already marked as deinitialising.
typedef void (*cdh_callback)(void *object);

/// Makes the class (or other heap metadata) of `object` call `callback` for every instance that dies from now on.
/// Quick, and without a lock, when that has been done before. The first callback of a class stays.
/// Returns false where nothing was changed: there is no destroyer at the place we know, the metadata lies in memory that can't be made
/// writable, or there was no memory for our record of the class.
_Bool cdh_hook_class_of(void *object, cdh_callback callback);

/// Puts the class's own destroyer back. Instances that are dying on other threads may still reach the callback.
void cdh_unhook_class_of(void *object);

/// Whether instances of the class of `object` die through us at the moment.
_Bool cdh_is_class_hooked(void *object);

/// Whether the destroyer word of the class of `object` points into code of this process: the first question of the self-check.
_Bool cdh_destroyer_is_code(void *object);

/// Whether the object's last strong reference is gone.
_Bool cdh_is_deinitialising(void *object);

/// Takes a strong reference and returns the object, or returns null when it is deinitialising. The memory must still be there.
void *_Nullable cdh_try_retain(void *object);

/// How many strong references there are to the object. The memory must still be there; writes nothing.
size_t cdh_reference_count(void *object);

/// Holds on to the memory of an object, which outlives the object then, until `cdh_release_memory`.
void cdh_hold_memory(void *object);
void cdh_release_memory(void *object);

/// Suspends the Dispatch queue whose work this thread does, if it has the label, and holds on to it until `cdh_resume_queue`. The work
/// under way is finished. Returns what to resume it with, once; or 0, and suspends nothing, if it has another label or there is no such
/// queue.
uintptr_t cdh_pause_current_queue(const char *label);
void cdh_resume_queue(uintptr_t queue);

#pragma clang assume_nonnull end

#endif
#endif
