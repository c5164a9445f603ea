#include "coo_queue_pause.h"

#if !defined(__APPLE__)

#include <string.h>

// Of libdispatch. Its headers need the blocks extension of C.
extern void *dispatch_get_current_queue(void);
extern const char *dispatch_queue_get_label(void *queue);
extern void dispatch_retain(void *object);
extern void dispatch_release(void *object);
extern void dispatch_suspend(void *object);
extern void dispatch_resume(void *object);

uintptr_t coo_pause_current_queue(const char *label) {
  void *queue = dispatch_get_current_queue();
  if (!queue) return 0;
  const char *found = dispatch_queue_get_label(queue);
  if (!found || strcmp(found, label) != 0) return 0;
  dispatch_retain(queue);
  dispatch_suspend(queue);
  return (uintptr_t)queue;
}

void coo_resume_queue(uintptr_t queue) {
  dispatch_resume((void *)queue);
  dispatch_release((void *)queue);
}

#endif
