#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "coo_deinit_hook.h"

#if !defined(__APPLE__)
#if defined(__linux__)

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// How Swift lays out an object and its class, without an Objective-C runtime, in words:
//
//   object[0]     metadata
//   metadata[-2]  destroyer: frees the instance when its last strong reference goes; swiftcall, self in the context register
//   metadata[-1]  value witness table
//   metadata[0]   kind: 0 for a class; closure contexts and error boxes have other kinds, and a destroyer at the same place
//   metadata[1]   superclass, for a class
//
// Protocol. `classes` maps metadata to the destroyer that was found there.
// - Written under `patching`. A record is complete before its metadata word is published with a release store, and the
//   record is published before the destroyer word of the class is replaced. Records never go away.
// - Read without a lock. A table that was outgrown is kept (all of them together are smaller than the one in use), so a
//   reader may go on using it; it may lack a class that was hooked since, and the reader then looks again under the lock.
// - The destroyer word is read by the runtime with a plain load of an aligned word, and written here with an atomic store:
//   an instance that dies during the change goes either way, and both end in the same destroyer.

typedef __attribute__((swiftcall)) void (*destroyer)(__attribute__((swift_context)) void *object);

typedef struct {
  _Atomic(void *) metadata;
  _Atomic(destroyer) original;
  _Atomic(coo_callback) callback;
} class_record;

typedef struct class_table {
  struct class_table *outgrown;
  size_t mask;
  size_t count;
  class_record records[];
} class_table;

static pthread_mutex_t patching = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(class_table *) classes;

static void *metadata_of(void *object) { return *(void **)object; }
static _Atomic(destroyer) *destroyer_word(void *metadata) { return (_Atomic(destroyer) *)((void **)metadata - 2); }

static size_t slot_of(const void *metadata, size_t mask) {
  return (size_t)(((uint64_t)(uintptr_t)metadata * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
}

/// The record of the class, or the empty one where it would go. Null only while there is no table.
static class_record *probe(class_table *table, void *metadata) {
  if (table == NULL) return NULL;
  for (size_t slot = slot_of(metadata, table->mask);; slot = (slot + 1) & table->mask) {
    void *found = atomic_load_explicit(&table->records[slot].metadata, memory_order_acquire);
    if (found == metadata || found == NULL) return &table->records[slot];
  }
}

static class_record *find(void *metadata) {
  class_record *record = probe(atomic_load_explicit(&classes, memory_order_acquire), metadata);
  if (record == NULL || atomic_load_explicit(&record->metadata, memory_order_acquire) != metadata) return NULL;
  return record;
}

static void fill(class_record *record, void *metadata, destroyer original, coo_callback callback) {
  atomic_store_explicit(&record->original, original, memory_order_relaxed);
  atomic_store_explicit(&record->callback, callback, memory_order_relaxed);
  atomic_store_explicit(&record->metadata, metadata, memory_order_release);
}

/// Under `patching`. Keeps the table at most half full.
static _Bool make_room(void) {
  class_table *table = atomic_load_explicit(&classes, memory_order_relaxed);
  if (table != NULL && table->count * 2 <= table->mask) return 1;
  size_t capacity = table == NULL ? 64 : (table->mask + 1) * 2;
  class_table *larger = calloc(1, sizeof(class_table) + capacity * sizeof(class_record));
  if (larger == NULL) return 0;
  larger->outgrown = table;
  larger->mask = capacity - 1;
  for (size_t slot = 0; table != NULL && slot <= table->mask; slot++) {
    class_record *old = &table->records[slot];
    void *metadata = atomic_load_explicit(&old->metadata, memory_order_relaxed);
    if (metadata == NULL) continue;
    fill(probe(larger, metadata), metadata, atomic_load_explicit(&old->original, memory_order_relaxed),
         atomic_load_explicit(&old->callback, memory_order_relaxed));
    larger->count++;
  }
  atomic_store_explicit(&classes, larger, memory_order_release);
  return 1;
}

/// Under `patching`.
static class_record *record_class(void *metadata, destroyer original, coo_callback callback) {
  class_record *known = find(metadata);
  if (known != NULL) {
    atomic_store_explicit(&known->original, original, memory_order_release);
    return known;
  }
  if (!make_room()) return NULL;
  class_table *table = atomic_load_explicit(&classes, memory_order_relaxed);
  class_record *record = probe(table, metadata);
  fill(record, metadata, original, callback);
  table->count++;
  return record;
}

/// Under `patching`. A class whose metadata was made from that of a hooked superclass has our word, but no record yet.
static class_record *adopt_from_superclass(void *metadata) {
  void *ancestor = metadata;
  while (*(uintptr_t *)ancestor == 0 && (ancestor = ((void **)ancestor)[1]) != NULL) {
    class_record *record = find(ancestor);
    if (record != NULL) {
      return record_class(metadata, atomic_load_explicit(&record->original, memory_order_relaxed),
                          atomic_load_explicit(&record->callback, memory_order_relaxed));
    }
  }
  return NULL;
}

static __attribute__((noinline)) class_record *find_slowly(void *metadata) {
  pthread_mutex_lock(&patching);
  class_record *record = find(metadata);
  if (record == NULL) record = adopt_from_superclass(metadata);
  pthread_mutex_unlock(&patching);
  return record;
}

/// Stands in for the destroyer of every hooked class.
static __attribute__((swiftcall)) void destroy_hooked(__attribute__((swift_context)) void *object) {
  void *metadata = metadata_of(object);
  class_record *record = find(metadata);
  if (record == NULL) record = find_slowly(metadata);
  if (record == NULL) {
    // Nobody but record_class publishes this function, so this is memory that someone else overwrote. Leaking is all that is safe.
    fprintf(stderr, "OwnedOperations: the destroyer of the class at %p is lost; its instance at %p leaks\n", metadata, object);
    return;
  }
  atomic_load_explicit(&record->callback, memory_order_relaxed)(object);
  atomic_load_explicit(&record->original, memory_order_acquire)(object);
}

// Loaded images ------------------------------------------------------------------------------------------------------

typedef struct {
  uintptr_t address;
  _Bool is_code;
  _Bool is_read_only;
} image_query;

static int examine_image(struct dl_phdr_info *image, size_t size, void *context) {
  (void)size;
  image_query *query = context;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (size_t index = 0; index < image->dlpi_phnum; index++) {
    const ElfW(Phdr) *segment = &image->dlpi_phdr[index];
    uintptr_t start = image->dlpi_addr + segment->p_vaddr;
    if (query->address < start || query->address - start >= segment->p_memsz) continue;
    if (segment->p_type == PT_LOAD) {
      if (segment->p_flags & PF_X) query->is_code = 1;
      if (!(segment->p_flags & PF_W)) query->is_read_only = 1;
    } else if (segment->p_type == PT_GNU_RELRO) {
      // The dynamic linker closes whole pages only: a last, partial one stays writable.
      uintptr_t end = (start + segment->p_memsz) & ~(page - 1);
      if (query->address < end) query->is_read_only = 1;
    }
  }
  return 0;
}

static image_query examine(const volatile void *address) {
  image_query query = {.address = (uintptr_t)address};
  dl_iterate_phdr(examine_image, &query);
  return query;
}

/// Under `patching`. Metadata is usually writable; a closure's is constant, and its page is opened for as long as the store takes.
static _Bool publish(void *metadata, destroyer replacement) {
  _Atomic(destroyer) *word = destroyer_word(metadata);
  if (!examine(word).is_read_only) {
    atomic_store_explicit(word, replacement, memory_order_release);
    return 1;
  }
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  void *start = (void *)((uintptr_t)word & ~(page - 1));
  if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return 0;
  atomic_store_explicit(word, replacement, memory_order_release);
  mprotect(start, page, PROT_READ);
  return 1;
}

// Entry points -------------------------------------------------------------------------------------------------------

_Bool coo_hook_class_of(void *object, coo_callback callback) {
  void *metadata = metadata_of(object);
  _Atomic(destroyer) *word = destroyer_word(metadata);
  if (atomic_load_explicit(word, memory_order_acquire) == destroy_hooked) return 1;
  pthread_mutex_lock(&patching);
  destroyer original = atomic_load_explicit(word, memory_order_relaxed);
  _Bool hooked = original == destroy_hooked ||
                 (original != NULL && record_class(metadata, original, callback) != NULL && publish(metadata, destroy_hooked));
  pthread_mutex_unlock(&patching);
  return hooked;
}

void coo_unhook_class_of(void *object) {
  void *metadata = metadata_of(object);
  pthread_mutex_lock(&patching);
  class_record *record = find(metadata);
  if (record != NULL && atomic_load_explicit(destroyer_word(metadata), memory_order_relaxed) == destroy_hooked) {
    publish(metadata, atomic_load_explicit(&record->original, memory_order_relaxed));
  }
  pthread_mutex_unlock(&patching);
}

_Bool coo_is_class_hooked(void *object) {
  return atomic_load_explicit(destroyer_word(metadata_of(object)), memory_order_acquire) == destroy_hooked;
}

_Bool coo_destroyer_is_code(void *object) {
  destroyer current = atomic_load_explicit(destroyer_word(metadata_of(object)), memory_order_acquire);
  return current != NULL && examine((const volatile void *)(uintptr_t)current).is_code;
}

#else

_Bool coo_hook_class_of(void *object, coo_callback callback) {
  (void)object;
  (void)callback;
  return 0;
}
void coo_unhook_class_of(void *object) { (void)object; }
_Bool coo_is_class_hooked(void *object) {
  (void)object;
  return 0;
}
_Bool coo_destroyer_is_code(void *object) {
  (void)object;
  return 0;
}

#endif
#endif
