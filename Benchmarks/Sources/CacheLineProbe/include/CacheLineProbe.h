#pragma once

/// How long a cache line takes from one processor to the other, in nanoseconds: two threads, on a processor each, write to it in turn.
/// Takes some milliseconds. -1 where there is only one processor, or threads can't be told where to run.
///
/// On a virtual machine that changes from minute to minute, with the processors that the host lends: by a factor of six where they may or
/// may not share a cache. All that several threads do together changes with it.
double cache_line_transfer_nanoseconds(void);
