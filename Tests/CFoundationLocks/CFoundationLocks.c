// How it works: a shared library calls the functions of others through a table of addresses of its own, which the dynamic linker fills, and
// in which it finds what belongs where by the library's list of relocations. So do we, for one library: the addresses of some functions are
// exchanged for those of ours, which go on to the real ones. Calls of everybody else stay as they are.
#define _GNU_SOURCE
#include "CFoundationLocks.h"

#if defined(__linux__) && defined(__LP64__)

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Thread_local size_t taken_here;
static atomic_size_t taken_anywhere;

static void count(void) {
  taken_here += 1;
  atomic_fetch_add_explicit(&taken_anywhere, 1, memory_order_relaxed);
}

static int counted_lock(pthread_mutex_t *mutex) {
  count();
  return pthread_mutex_lock(mutex);
}

static int counted_trylock(pthread_mutex_t *mutex) {
  count();
  return pthread_mutex_trylock(mutex);
}

static int counted_timedlock(pthread_mutex_t *mutex, const struct timespec *deadline) {
  count();
  return pthread_mutex_timedlock(mutex, deadline);
}

static uintptr_t counting(const char *function) {
  if (strcmp(function, "pthread_mutex_lock") == 0) return (uintptr_t)counted_lock;
  if (strcmp(function, "pthread_mutex_trylock") == 0) return (uintptr_t)counted_trylock;
  if (strcmp(function, "pthread_mutex_timedlock") == 0) return (uintptr_t)counted_timedlock;
  return 0;
}

static int clock_ahead(clockid_t clock, struct timespec *time) {
  int status = clock_gettime(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += 3600;
  return status;
}

static uintptr_t running_ahead(const char *function) { return strcmp(function, "clock_gettime") == 0 ? (uintptr_t)clock_ahead : 0; }

struct replacing {
  const char *library;
  uintptr_t (*replacement)(const char *function);
  // A function that is called there for certain.
  const char *expected;
  bool found;
};

static bool exchange(uintptr_t *slot, uintptr_t address) {
  // The linker may have made the table read-only.
  uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
  void *page = (void *)((uintptr_t)slot & ~(size - 1));
  if (mprotect(page, size, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(slot, address, __ATOMIC_RELEASE);
  return true;
}

// The linker of glibc makes these absolute when it loads a library, that of musl does not.
static const void *address(const struct dl_phdr_info *library, ElfW(Addr) value) {
  return (const void *)(value < library->dlpi_addr ? value + library->dlpi_addr : value);
}

static int replace_in(struct dl_phdr_info *library, size_t size, void *context) {
  struct replacing *replacing = context;
  const char *name = library->dlpi_name ? strrchr(library->dlpi_name, '/') : NULL;
  if (!name || strcmp(name, replacing->library) != 0) return 0;
  const ElfW(Dyn) *entry = NULL;
  for (int place = 0; place < library->dlpi_phnum; ++place) {
    if (library->dlpi_phdr[place].p_type != PT_DYNAMIC) continue;
    entry = (const ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[place].p_vaddr);
  }
  const ElfW(Rela) *relocations = NULL;
  const ElfW(Sym) *symbols = NULL;
  const char *strings = NULL;
  size_t bytes = 0;
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_JMPREL) relocations = address(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = address(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = address(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_PLTRELSZ) bytes = entry->d_un.d_val;
  }
  if (!relocations || !symbols || !strings) return 1;
  for (size_t place = 0; place < bytes / sizeof(*relocations); ++place) {
    const char *function = strings + symbols[ELF64_R_SYM(relocations[place].r_info)].st_name;
    uintptr_t ours = replacing->replacement(function);
    if (!ours) continue;
    if (!exchange((uintptr_t *)(library->dlpi_addr + relocations[place].r_offset), ours)) return 1;
    if (strcmp(function, replacing->expected) == 0) replacing->found = true;
  }
  return 1;
}

bool foundation_locks_count(void) {
  struct replacing replacing = {"/libFoundation.so", counting, "pthread_mutex_lock", false};
  dl_iterate_phdr(replace_in, &replacing);
  return replacing.found;
}

bool dispatch_clock_is_ahead(void) {
  struct replacing replacing = {"/libdispatch.so", running_ahead, "clock_gettime", false};
  dl_iterate_phdr(replace_in, &replacing);
  return replacing.found;
}

size_t foundation_locks_on_this_thread(void) { return taken_here; }
size_t foundation_locks_on_all_threads(void) { return atomic_load_explicit(&taken_anywhere, memory_order_relaxed); }

#else

bool foundation_locks_count(void) { return false; }
bool dispatch_clock_is_ahead(void) { return false; }
size_t foundation_locks_on_this_thread(void) { return 0; }
size_t foundation_locks_on_all_threads(void) { return 0; }

#endif

#if defined(__GLIBC__)
#include <malloc.h>
size_t allocated_bytes(void) { return mallinfo2().uordblks; }
#else
size_t allocated_bytes(void) { return 0; }
#endif
