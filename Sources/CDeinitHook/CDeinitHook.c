#include "CDeinitHook.h"
