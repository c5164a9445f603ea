#include "CDeinitHook.h"

#if !defined(__APPLE__)
extern void *swift_tryRetain(void *object);

void *cdh_try_retain(void *object) { return swift_tryRetain(object); }
#endif
