#ifndef COO_PREFETCH_H
#define COO_PREFETCH_H

/// Have the processor fetch the cache line of an address, to be read soon, or written. They change nothing, whatever the address is.
static inline void coo_prefetch_to_read(const void *_Nullable address) { __builtin_prefetch(address, 0); }
static inline void coo_prefetch_to_write(const void *_Nullable address) { __builtin_prefetch(address, 1); }

#endif
