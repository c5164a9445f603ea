#ifndef C_DEINIT_HOOK_H
#define C_DEINIT_HOOK_H
#endif
