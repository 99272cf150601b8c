// The relationships of a damaged database's runs: each group of nodes and each segment of
// properties that can be read, and which nodes may have had more. Internal.
//
// Of one relationship, a deletion in any run counts, whatever the order of runs; else an update
// counts more than an insertion, and a newer run more than an older one.
//
// One thread. Blocks on page faults.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "services/graph/core/files.h"
#include "services/graph/model/properties.h"
#include "services/graph/runs/run_reader.h"
#include "services/graph/salvage/notes.h"

namespace pulse::graph {

class SalvagedRuns {
 public:
  enum class State : uint8_t { kDead, kAlive, kUnknown };

  // The newest run of its direction first. `side` null: the run says it.
  absl::Status Add(const std::string& path, const Side* side, absl::StatusOr<RunBytes> bytes,
                   SalvageNotes* notes);

  struct Edge {
    EdgeRef ref;
    size_t run = 0;
    uint64_t position = 0;
    uint64_t flags = 0;
  };
  // All that are alive by the runs of one direction, node by node. `edges` live during the call.
  absl::Status ForEachNode(Side side,
                           const std::function<absl::Status(std::span<const Edge>)>& call);
  // What the runs of a direction say of a relationship.
  State Look(Side side, const EdgeRef& edge) const;
  // Whether some run of a direction has, or had, relationships of a node that cannot be read.
  bool Lost(Side side, NodeId node) const;
  bool AnyLost(Side side) const;
  // Of the outgoing direction. Keys whose value was lost go to *lost; false: nobody knows which.
  bool ReadProperties(const Edge& edge, Properties* out, std::vector<Token>* lost) const;

 private:
  struct Opened {
    std::shared_ptr<const RunReader> reader;
    absl::flat_hash_set<uint64_t> bad_groups;
    absl::flat_hash_set<uint64_t> bad_segments;  // number of the key << 32 | segment
    bool keys_lost = false;
  };
  void Verify(Opened* run, SalvageNotes* notes);
  static bool IsBad(const Opened& run, NodeId node) {
    return run.bad_groups.contains(node / kGroupNodes);
  }
  void ReadNode(Side side, NodeId node, std::vector<Edge>* out) const;
  const std::vector<Opened>& runs(Side side) const { return runs_[static_cast<size_t>(side)]; }

  std::vector<Opened> runs_[2];
  bool whole_run_lost_[2] = {};
};

}  // namespace pulse::graph
