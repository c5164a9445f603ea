#include "OneTBBPeer.h"

#include <tbb/flow_graph.h>
#include <tbb/task_group.h>

#include <atomic>
#include <deque>

namespace {

// What `Screen.visit` is in Swift: every 1024th visit is counted.
class Visitor {
public:
  __attribute__((noinline)) void visit(int64_t index) {
    if ((index & 1023) == 0) visits.fetch_add(1, std::memory_order_relaxed);
  }
  int64_t count() const { return visits.load(std::memory_order_relaxed); }

private:
  std::atomic<int64_t> visits{0};
};

void run_nested(tbb::task_group &group, Visitor &visitor, int64_t index, int64_t count) {
  group.run([&group, &visitor, index, count] {
    visitor.visit(index);
    if (2 * index + 2 >= count) return;
    run_nested(group, visitor, 2 * index + 1, count);
    run_nested(group, visitor, 2 * index + 2, count);
  });
}

}  // namespace

int64_t onetbb_run_task_group(int64_t count) {
  Visitor visitor;
  tbb::task_group group;
  for (int64_t index = 0; index < count; index++) {
    group.run([&visitor, index] { visitor.visit(index); });
  }
  group.wait();
  return visitor.count();
}

int64_t onetbb_run_nested_task_group(int64_t count) {
  Visitor visitor;
  tbb::task_group group;
  run_nested(group, visitor, 0, count);
  group.wait();
  return visitor.count();
}

int64_t onetbb_run_flow_graph(
    int64_t nodeCount, const uint32_t *edges, int64_t edgeCount, const uint32_t *roots, int64_t rootCount) {
  using tbb::flow::continue_msg;
  using Node = tbb::flow::continue_node<continue_msg>;

  Visitor visitor;
  {
    tbb::flow::graph graph;
    std::deque<Node> nodes;
    for (int64_t index = 0; index < nodeCount; index++) {
      nodes.emplace_back(graph, [&visitor, index](const continue_msg &) {
        visitor.visit(index);
        return continue_msg();
      });
    }
    for (int64_t edge = 0; edge < edgeCount; edge++) {
      tbb::flow::make_edge(nodes[edges[2 * edge]], nodes[edges[2 * edge + 1]]);
    }
    for (int64_t root = 0; root < rootCount; root++) nodes[roots[root]].try_put(continue_msg());
    graph.wait_for_all();
  }
  return visitor.count();
}
