// Filter: the records of one input that match, in their order, to one output, on all processors:
// chunks of whole records go through the queue to engines on the host's and the agent's CPUs.
//
// Implements the placement of regex operators of the co-processing paper (its fCPU and rDPU, and
// the cREG that it could not run), with the pull queue in place of percentages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/ops/filter/filter_engine.h"
#include "services/ops/filter/record_source.h"
#include "services/ops/filter/rule_set.h"
#include "services/ops/queue.h"

namespace pulse::filter {

struct FilterOptions {
  Selection selection;
  SourceOptions source;
  std::string out_name;
  // One lane for each CPU. Both empty: every CPU that this process may use is the host's.
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
  ops::Placement placement;
  // Now and then, by the calling thread: bytes read and written so far.
  std::function<void(uint64_t in, uint64_t out)> progress;
};

struct FilterOutcome {
  uint64_t selected = 0;
  // The reader of the output went away: nothing more was written, and not all was read.
  bool reader_gone = false;
  ops::QueueStats stats;
};

// Reads `in` from where it is to its end, and writes to `out` unless records are only counted.
// SIGPIPE is to be ignored. Blocks. Errors: of reading and writing, DataLoss (a file that became
// shorter, a record that is cut off), OutOfRange (a record that is too long), InvalidArgument
// (CPUs).
absl::StatusOr<FilterOutcome> RunFilter(const RuleSet& rules, const FilterOptions& options, int in,
                                        int out);

// The rules of a file's text: one a line. Empty lines and lines that begin with # are none; a rule
// that begins with # is written \#. A carriage return at a line's end is no part of it. `name` is
// for messages. InvalidArgument for more than kMostRules.
inline constexpr size_t kMostRules = 100000;
absl::StatusOr<std::vector<Rule>> ReadRules(absl::string_view text, const std::string& name);

}  // namespace pulse::filter
