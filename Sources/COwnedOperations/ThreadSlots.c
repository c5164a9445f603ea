#include "coo_thread_slots.h"

_Thread_local void *coo_thread_slots[15];
