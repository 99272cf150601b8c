#include "services/graph/cypher/parallel_worker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "services/graph/cypher/step_reads.h"

namespace pulse::cypher {
namespace {

std::span<const Expr* const> FilterOf(const ParallelSection& section, const Step& first) {
  return section.scans ? std::span<const Expr* const>(first.predicates)
                       : std::span<const Expr* const>();
}

}  // namespace

SectionWorker::SectionWorker(std::span<const Step> steps, const ParallelSection& section,
                             const Runtime& runtime, int threads, bool calls,
                             const std::atomic<bool>& stop, Sink sink)
    : steps_(steps),
      section_(section),
      calls_(calls),
      give_(std::move(sink)),
      stopped_([&stop] { return stop.load(std::memory_order_relaxed); }),
      runtime_(runtime),
      filter_(FilterOf(section, steps[section.begin])),
      rows_(runtime.width) {
  runtime.context->Fork(threads, &ctx_);
  ctx_.interrupted = calls ? runtime.context->interrupted : &stopped_;
  runtime_.context = &ctx_;
  if (runtime_.profile != nullptr) runtime_.profile = &profile_;
}

void SectionWorker::Build() {
  subplans_ = MakeSubplans(runtime_);
  ctx_.subplans = subplans_.get();
  sink_ = MakeSink(&runtime_, [this](Rows& rows) {
    wanted_ = wanted_ && (rows.empty() || give_(this, rows));
    return wanted_;
  });
  Operator* last = sink_.get();
  if (section_.inputs != nullptr) {
    inputs_ = MakeOperator(*section_.inputs, &runtime_, last);
    last = inputs_.get();
  }
  const size_t begin = section_.begin + (section_.scans ? 1 : 0);
  pipeline_ =
      std::make_unique<Pipeline>(steps_.subspan(begin, section_.end - begin), &runtime_, last);
}

void SectionWorker::Run(Morsel* morsel, const Value* base) {
  morsel_ = morsel;
  wanted_ = true;
  // What evaluates the inputs of the step behind the section reads for that step.
  std::optional<StepReads> counting;
  if (runtime_.profile != nullptr) {
    counting.emplace(section_.inputs != nullptr ? ReadsOf(steps_[section_.end]) : nullptr);
  }
  if (morsel->input.rows != nullptr) {
    RunRows(*morsel->input.rows);
  } else {
    RunNodes(*morsel, base);
  }
}

bool SectionWorker::BeginScan(Token label, Value* row, NodeSource* source) {
  std::optional<StepReads> counting;
  if (runtime_.profile != nullptr) counting.emplace(ReadsOf(first()));
  return source->Begin(first(), label, row, ctx_);
}

absl::StatusOr<size_t> SectionWorker::Scan(NodeSource* source, std::span<NodeId> out) {
  std::optional<StepReads> counting;
  if (runtime_.profile != nullptr) counting.emplace(ReadsOf(first()));
  return source->Next(*ctx_.graph, out);
}

void SectionWorker::RunNodes(const Morsel& morsel, const Value* base) {
  const Step& scan = first();
  rows_.clear();
  for (size_t begin = 0; begin < morsel.nodes.size(); begin += kGraphBatch) {
    const std::span<const NodeId> nodes =
        std::span(morsel.nodes)
            .subspan(begin, std::min<size_t>(kGraphBatch, morsel.nodes.size() - begin));
    if (!filter_.empty()) {
      std::optional<StepReads> counting;
      if (runtime_.profile != nullptr) counting.emplace(ReadsOf(scan));
      if (!filter_.Select(nodes, ctx_, &selected_)) return;
    }
    if (!ctx_.Tick(nodes.size())) return;
    const size_t count = filter_.empty() ? nodes.size() : selected_.size();
    for (size_t i = 0; i < count; ++i) {
      if (rows_.full() && !RunRows(rows_)) return;
      Value* const row = scan.all_live ? rows_.Add(base) : rows_.Add(base, scan.live);
      row[scan.slot] = Value::Node(nodes[filter_.empty() ? i : selected_[i]]);
    }
  }
  RunRows(rows_);
}

bool SectionWorker::RunRows(Rows& rows) {
  if (runtime_.profile != nullptr && section_.scans) profile_.steps[&first()].rows += rows.size();
  if (!rows.empty()) pipeline_->Run(rows);
  rows.clear();
  return wanted_ && !ctx_.failed();
}

void SectionWorker::AddCountsTo(Profile* profile) {
  for (auto& [step, counts] : profile_.steps) {
    StepCounts& sum = profile->steps[step];
    sum.rows += counts.rows;
    sum.reads.Add(counts.reads);
    counts = {};
  }
}

}  // namespace pulse::cypher
