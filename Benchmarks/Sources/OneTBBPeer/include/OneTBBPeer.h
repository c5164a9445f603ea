#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The same work as the Swift contenders do, written for oneTBB. Each call returns when everything has run and has been freed, with
/// the number of visits that were counted.

/// Runs `count` tasks in a task group.
int64_t onetbb_run_task_group(int64_t count);

/// Runs `count` tasks in a task group, numbered as in a heap: each adds its two children.
int64_t onetbb_run_nested_task_group(int64_t count);

/// Builds a flow graph with a node for each of `nodeCount`, and an edge for each of the `edgeCount` pairs (from, to), and runs it once.
/// `roots` are the nodes that nothing precedes.
int64_t onetbb_run_flow_graph(
    int64_t nodeCount, const uint32_t *edges, int64_t edgeCount, const uint32_t *roots, int64_t rootCount);

#ifdef __cplusplus
}
#endif
