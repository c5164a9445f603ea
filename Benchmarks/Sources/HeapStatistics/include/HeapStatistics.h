#pragma once

#include <stdint.h>

/// Bytes that malloc has handed out and not got back, with its own headers, or -1 where it doesn't tell. Swift doesn't import glibc's
/// `mallinfo2`.
int64_t heap_bytes_in_use(void);

/// Gives back to the system what malloc keeps without anybody using it, where it can.
void heap_trim(void);
