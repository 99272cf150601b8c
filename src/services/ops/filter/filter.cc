#include "services/ops/filter/filter.h"

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse::filter {
namespace {

class FdSink : public ops::Sink {
 public:
  FdSink(int fd, std::string name, RecordSource* source, FilterOutcome* outcome)
      : fd_(fd), name_(std::move(name)), source_(source), outcome_(outcome) {}

  absl::Status Take(const ops::Chunk& chunk, ops::Result& result) override {
    outcome_->selected += result.count;
    if (result.bytes.size() == 0) return absl::OkStatus();
    const absl::Status status = WriteAll(fd_, result.bytes.view(), "writing", name_);
    // A lane may wait for a stream that pauses.
    if (!status.ok()) source_->Stop();
    return status;
  }

 private:
  const int fd_;
  const std::string name_;
  RecordSource* const source_;
  FilterOutcome* const outcome_;
};

}  // namespace

absl::StatusOr<FilterOutcome> RunFilter(const RuleSet& rules, const FilterOptions& options, int in,
                                        int out) {
  PULSE_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                         RecordSource::Make(in, options.source));
  std::vector<std::unique_ptr<FilterEngine>> engines;
  std::vector<ops::Engine*> pointers;
  const auto add = [&](ops::Side side, const std::vector<int>& cpus, int lanes) -> absl::Status {
    ops::EngineTraits traits;
    traits.name = side == ops::Side::kHost ? "filter" : "filter@agent";
    traits.side = side;
    traits.lanes = lanes;
    traits.cpus = cpus;
    PULSE_ASSIGN_OR_RETURN(auto engine,
                           FilterEngine::Make(&rules, options.selection, std::move(traits)));
    pointers.push_back(engine.get());
    engines.push_back(std::move(engine));
    return absl::OkStatus();
  };
  const auto lanes = [](const std::vector<int>& cpus) { return static_cast<int>(cpus.size()); };
  if (!options.host_cpus.empty()) {
    PULSE_RETURN_IF_ERROR(add(ops::Side::kHost, options.host_cpus, lanes(options.host_cpus)));
  } else if (options.agent_cpus.empty()) {
    PULSE_RETURN_IF_ERROR(add(ops::Side::kHost, {}, AllowedCpus()));
  }
  if (!options.agent_cpus.empty()) {
    PULSE_RETURN_IF_ERROR(add(ops::Side::kAgent, options.agent_cpus, lanes(options.agent_cpus)));
  }
  ops::QueueOptions queue_options;
  queue_options.placement = options.placement;
  queue_options.operation = "filter";
  queue_options.chunk_bytes = options.source.chunk_bytes;
  queue_options.total_bytes = source->TotalBytes();
  ops::Queue* running = nullptr;
  if (options.progress) {
    queue_options.tick = [&] { options.progress(running->input_bytes(), running->output_bytes()); };
  }
  FilterOutcome outcome;
  FdSink sink(out, options.out_name, source.get(), &outcome);
  ops::Queue queue(std::move(queue_options), std::move(pointers));
  running = &queue;
  const absl::Status status = queue.Run(*source, sink);
  outcome.stats = queue.stats();
  if (!status.ok() && ErrnoOf(status) != EPIPE) return status;
  outcome.reader_gone = !status.ok();
  return outcome;
}

absl::StatusOr<std::vector<Rule>> ReadRules(absl::string_view text, const std::string& name) {
  std::vector<Rule> rules;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (rules.size() == kMostRules) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": more than ", kMostRules, " rules; split the file"));
    }
    rules.push_back({std::string(line), absl::StrCat(name, ", line ", number)});
  }
  return rules;
}

}  // namespace pulse::filter
