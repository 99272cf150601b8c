// Sections of a plan that several threads run: a scan of many nodes, and the steps behind it that
// look at each row by itself. What comes out of a section goes on in the order in which one thread
// would have made it, so that the rows of a query, sums of floats and errors are the same however
// many threads there are. What follows (aggregation, ORDER BY, DISTINCT) is the calling thread's;
// the keys and arguments of an aggregation are evaluated in the section before it.
//
// A ParallelPlan belongs to one execution. Other threads live within the calls of Push() and
// Finish() of a section's operator, which joins them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "services/graph/cypher/plan.h"
#include "services/graph/expressions/eval.h"

namespace pulse::cypher {

class Operator;
struct Runtime;

struct ParallelOptions {
  int threads = 1;  // of one execution, with the one that calls
  // Graphs and scans of fewer nodes are one thread's.
  uint64_t from_nodes = 4096;
  // Others join when the rest of a scan takes as long as this, as its beginning tells; or when this
  // much time went into the rows that another section gave.
  int64_t from_nanos = 1'000'000;
  size_t morsel_nodes = 1024;  // that a thread takes at a time, at most
  // How many threads more may run beside the callers, of all executions that share the number.
  // Null: each execution has its own.
  std::atomic<int>* spare = nullptr;
};

struct ParallelSection {
  size_t begin = 0, end = 0;  // steps of a branch
  bool scans = false;         // the first is a scan of many nodes; else rows come from before it
  // Keys and arguments of the aggregation behind it, as kProject, and this aggregation with
  // variables instead. Null: it is what the plan says.
  std::unique_ptr<Step> inputs, aggregate;
  std::vector<ExprPtr> made;
};

class ParallelPlan {
 public:
  // Null: nothing in the plan is for several threads.
  static std::unique_ptr<ParallelPlan> Make(const Plan& plan, const ParallelOptions& options,
                                            EvalContext* context);

  const ParallelOptions& options() const { return options_; }
  // Slots of rows beyond those of the plan.
  int extra_slots() const { return extra_slots_; }
  // Of a branch, ascending.
  std::span<const ParallelSection> Of(size_t branch) const { return branches_[branch]; }

 private:
  explicit ParallelPlan(const ParallelOptions& options) : options_(options) {}
  void Add(const Plan& plan, const Steps& steps, EvalContext* context,
           std::vector<ParallelSection>* out);
  void EvaluateInputs(const Plan& plan, const Step& aggregate, ParallelSection* section);

  const ParallelOptions options_;
  int extra_slots_ = 0;
  std::vector<std::vector<ParallelSection>> branches_;
};

// The operator of a section. `steps` are the branch's, `next` takes the rows.
std::unique_ptr<Operator> MakeSectionOperator(std::span<const Step> steps,
                                              const ParallelSection& section,
                                              const ParallelOptions& options, Runtime* runtime,
                                              Operator* next);

}  // namespace pulse::cypher
