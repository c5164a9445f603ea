#ifndef COO_QUEUE_PAUSE_H
#define COO_QUEUE_PAUSE_H

#if !defined(__APPLE__)

#include <stdint.h>

#pragma clang assume_nonnull begin

/// Suspends the Dispatch queue whose work this thread does, if it has the label, and holds on to it until `coo_resume_queue`. The work
/// under way is finished. Returns what to resume it with, once; or 0, and suspends nothing, if it has another label or there is no such
/// queue.
uintptr_t coo_pause_current_queue(const char *label);
void coo_resume_queue(uintptr_t queue);

#pragma clang assume_nonnull end

#endif
#endif
