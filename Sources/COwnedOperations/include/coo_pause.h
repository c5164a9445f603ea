#ifndef COO_PAUSE_H
#define COO_PAUSE_H

/// Tells the processor that this thread looks at something again and again: some ten nanoseconds without work, which the other thread of
/// the core can use.
static inline void coo_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

#endif
