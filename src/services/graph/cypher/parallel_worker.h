// What one thread needs to run the steps of a section on morsels: state that is its own.
//
// One thread at a time. The execution's context outlives it.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/cypher/node_source.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/parallel.h"
#include "services/graph/expressions/batch_filter.h"

namespace pulse::cypher {

// A part of a section's input, and what came out of it and was not handed on yet.
struct Morsel {
  // Rows, and the memory of their values with them.
  struct Batch {
    std::unique_ptr<Rows> rows;
    size_t bytes = 0;
  };
  std::vector<NodeId> nodes;  // of a scan
  Batch input;                // or rows
  std::deque<Batch> kept;
  size_t kept_bytes = 0;
  bool taken = false;
  bool done = false;
  absl::Status status;        // when it is done
  std::exception_ptr thrown;  // the same
};

class SectionWorker {
 public:
  // Takes rows of the morsel; false: no more are wanted.
  using Sink = std::function<bool(SectionWorker*, Rows&)>;
  // One of `threads` at most. `calls`: it is of the thread that runs the execution, whose context
  // and runtime are given. `stop`: ends the others.
  SectionWorker(std::span<const Step> steps, const ParallelSection& section, const Runtime& runtime,
                int threads, bool calls, const std::atomic<bool>& stop, Sink sink);

  // Makes the operators: before Run, by the thread that runs.
  void Build();
  // `base`: the row that a scan's nodes go into. Errors are in the context afterwards.
  void Run(Morsel* morsel, const Value* base);
  // The nodes of the section's scan; 0: it is at its end.
  bool BeginScan(Token label, Value* row, NodeSource* source);
  absl::StatusOr<size_t> Scan(NodeSource* source, std::span<NodeId> out);
  // Adds what was counted to *profile, and begins anew.
  void AddCountsTo(Profile* profile);

  EvalContext& context() { return ctx_; }
  Morsel* morsel() { return morsel_; }
  bool calls() const { return calls_; }

  // Of the calling thread: the morsel is the lowest, and nothing is kept of it.
  bool direct = false;

 private:
  void RunNodes(const Morsel& morsel, const Value* base);
  bool RunRows(Rows& rows);
  ReadCounts* ReadsOf(const Step& step) { return &profile_.steps[&step].reads; }
  const Step& first() const { return steps_[section_.begin]; }

  const std::span<const Step> steps_;
  const ParallelSection& section_;
  const bool calls_;
  const Sink give_;
  EvalContext ctx_;
  const std::function<bool()> stopped_;
  Profile profile_;
  Runtime runtime_;
  std::unique_ptr<SubplanRunner> subplans_;
  std::unique_ptr<Operator> sink_, inputs_;
  std::unique_ptr<Pipeline> pipeline_;
  BatchFilter filter_;
  std::vector<uint32_t> selected_;
  Rows rows_;
  Morsel* morsel_ = nullptr;
  bool wanted_ = true;  // more rows
};

}  // namespace pulse::cypher
