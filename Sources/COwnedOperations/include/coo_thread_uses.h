#ifndef COO_THREAD_USES_H
#define COO_THREAD_USES_H

/// Something that this thread is inside of, and the call that has brought it there.
struct coo_use {
  const void *_Nullable object;
  const char *_Nullable call;
  const char *_Nullable file;
  unsigned long line;
};

/// How deep uses can be nested.
#define COO_MOST_USES 16

extern _Thread_local int coo_use_count;
extern _Thread_local struct coo_use coo_uses[COO_MOST_USES];

static inline int coo_count_of_uses(void) { return coo_use_count; }
static inline struct coo_use coo_use_at(int index) { return coo_uses[index]; }
/// There must be fewer than COO_MOST_USES.
static inline void coo_push_use(struct coo_use use) { coo_uses[coo_use_count++] = use; }
static inline void coo_pop_use(void) { coo_use_count--; }
/// The index of the innermost use of the object; -1 if this thread is not inside of one.
static inline int coo_find_use(const void *_Nonnull object) {
  for (int index = coo_use_count - 1; index >= 0; index--) {
    if (coo_uses[index].object == object) return index;
  }
  return -1;
}

#endif
