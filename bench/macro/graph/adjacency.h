// A plain adjacency list, what Figure 8 of the DSA paper compares with: records in one array,
// linked by their numbers in a list for each source and one for each target. Relationships go to a
// list's end, which is found by walking it, as in that paper's engine; or to its front, which is
// the best that such a list can do. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "services/graph/runs/record.h"

namespace pulse::bench {

class AdjacencyList {
 public:
  enum class Place { kBack, kFront };

  AdjacencyList(uint64_t nodes, Place place) : place_(place), heads_(nodes) {}

  void Insert(graph::NodeId source, graph::NodeId target, graph::Token type) {
    const auto number = static_cast<uint32_t>(records_.size());
    records_.push_back({source, target, number, type, kNone, kNone});
    Link(&heads_[source].out, &Full::next_out, number);
    Link(&heads_[target].in, &Full::next_in, number);
  }
  uint64_t Degree(graph::NodeId source) const {
    uint64_t degree = 0;
    for (uint32_t at = heads_[source].out; at != kNone; at = records_[at].next_out) ++degree;
    return degree;
  }
  uint64_t InDegree(graph::NodeId target) const {
    uint64_t degree = 0;
    for (uint32_t at = heads_[target].in; at != kNone; at = records_[at].next_in) ++degree;
    return degree;
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Full {
    graph::NodeId source, target;
    graph::EdgeId edge;
    graph::Token type;
    uint32_t next_out, next_in;
  };
  struct Heads {
    uint32_t out = kNone, in = kNone;
  };
  void Link(uint32_t* head, uint32_t Full::*next, uint32_t number) {
    if (place_ == Place::kFront || *head == kNone) {
      records_[number].*next = *head;
      *head = number;
      return;
    }
    uint32_t at = *head;
    while (records_[at].*next != kNone) at = records_[at].*next;
    records_[at].*next = number;
  }

  const Place place_;
  std::vector<Heads> heads_;
  std::vector<Full> records_;
};

}  // namespace pulse::bench
