#ifndef COO_THREAD_SLOTS_H
#define COO_THREAD_SLOTS_H

/// What each thread carries along: a pointer for each purpose, null at first.
extern _Thread_local void *_Nullable coo_thread_slots[15];

static inline void *_Nullable coo_thread_slot(int index) { return coo_thread_slots[index]; }
static inline void coo_set_thread_slot(int index, void *_Nullable value) { coo_thread_slots[index] = value; }

#endif
