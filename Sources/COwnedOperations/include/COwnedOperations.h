#ifndef C_OWNED_OPERATIONS_H
#define C_OWNED_OPERATIONS_H

#include "coo_deinit_hook.h"
#include "coo_object_memory.h"
#include "coo_pause.h"
#include "coo_prefetch.h"
#include "coo_queue_pause.h"
#include "coo_semaphore.h"
#include "coo_thread_slots.h"
#include "coo_thread_usage.h"
#include "coo_thread_uses.h"
#include "coo_timer.h"

#endif
