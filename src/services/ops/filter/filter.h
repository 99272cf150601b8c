// Filter: the records of one input that match, in their order, to one output, on all processors:
// chunks of whole records go through the queue to engines on the host's and the agent's CPUs.
//
// Implements the placement of regex operators of the co-processing paper (its fCPU and rDPU, and
// the cREG that it could not run), with the pull queue in place of percentages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/ops/decompress.h"
#include "services/ops/filter/filter_engine.h"
#include "services/ops/filter/record_source.h"
#include "services/ops/filter/rule_set.h"
#include "services/ops/format.h"
#include "services/ops/operation.h"
#include "services/ops/queue.h"

namespace pulse::filter {

struct FilterOptions {
  Selection selection;
  SourceOptions source;
  std::string out_name;
  ops::Processors processors;
  bool plain = false;  // the input is not compressed, whatever it looks like
  // It is compressed so: zlib's streams are taken for text without it. Not with `plain`.
  std::optional<ops::Format> input_format;
  // Input that is compressed to more data is refused. 0: no limit.
  uint64_t max_decompressed = 0;
  // The name by which the caller's users know this limit.
  std::string max_decompressed_option = "max_decompressed";
  // The output is one stream of this format.
  std::optional<ops::Format> compress;
  int level = 1;
};

struct FilterOutcome {
  uint64_t selected = 0;
  // The reader of the output went away: nothing more was written, and not all was read.
  bool reader_gone = false;
  // Of compressed input: from here on there was no stream, which was ignored.
  std::optional<uint64_t> garbage_offset;
  ops::QueueStats stats;  // of the filter
  // Of the stages before and behind it, if there are any.
  std::optional<ops::DecompressReport> decompressed;
  std::optional<ops::QueueStats> compressed;

  // A line for each stage: what each processor did.
  std::string Explain() const;
};

// Reads `in` from where it is to its end, and writes to `out` unless records are only counted.
// Input that begins as gzip, BGZF, zstd or LZ4 does is decompressed on the way (zlib's streams
// cannot be told from text). Decompression, filter and compression run at the same time, and pass
// pieces on; nothing is kept in a file. SIGPIPE is to be ignored. Blocks. Errors: of reading and
// writing, DataLoss (a file that became shorter, a damaged stream, a record that is cut off),
// OutOfRange (a record that is too long), ResourceExhausted (max_decompressed; what is before it
// has been filtered), InvalidArgument (CPUs), Cancelled.
absl::StatusOr<FilterOutcome> RunFilter(const RuleSet& rules, const FilterOptions& options, int in,
                                        int out);

// Whether input that begins with these kRecogniseBytes is decompressed: gzip, BGZF, zstd or LZ4.
bool IsCompressedInput(absl::string_view head);

// The rules of a file's text: one a line. Empty lines and lines that begin with # are none; a rule
// that begins with # is written \#. A carriage return at a line's end is no part of it. `name` is
// for messages. InvalidArgument for more than kMostRules.
inline constexpr size_t kMostRules = 100000;
absl::StatusOr<std::vector<Rule>> ReadRules(absl::string_view text, const std::string& name);

}  // namespace pulse::filter
