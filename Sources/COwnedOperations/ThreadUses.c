#include "coo_thread_uses.h"

_Thread_local int coo_use_count;
_Thread_local struct coo_use coo_uses[COO_MOST_USES];
