// LoadCsv: bulk load of a property graph from CSV files, one for each label and each type of
// relationships. Files are read by all threads at once; relationships are sorted by counting, not
// by comparing, and go to the sink as two sorted runs, where it takes runs (sink.h).
//
// Everything is read and checked before the sink gets anything: what is wrong with the input leaves
// the graph as it was. Memory: the nodes' keys and properties, and for each relationship 20 bytes
// and its properties, in the width of a column; texts of 4 KiB and more stay in a file that is
// mapped (those of nodes until the sink gets them). Up to LoadOptions::memory_bytes.
//
// Any thread; blocks. Errors name file and line.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/graph/load/csv.h"
#include "services/graph/load/sink.h"

namespace pulse::graph {

struct NodeFile {
  std::string label;  // may be empty where the file has :LABEL
  std::string path;
  // Open for reading: what is read in place of `path`, which is then for messages only. Into
  // memory, as who else may write to it is not known. -1: none.
  int descriptor = -1;
};

struct EdgeFile {
  std::string type;  // may be empty where the file has :TYPE
  std::string path;
  // The labels, or ID spaces, that the keys of sources and targets are of. Empty: what the header
  // says, else whichever has the key.
  std::string source = {}, target = {};
  int descriptor = -1;  // as of a NodeFile
};

// "LABEL=FILE"; "TYPE=FILE", or "TYPE(SOURCE,TARGET)=FILE".
absl::StatusOr<NodeFile> ParseNodeFile(absl::string_view text);
absl::StatusOr<EdgeFile> ParseEdgeFile(absl::string_view text);

struct LoadProgress {
  std::string what;  // "reading FILE", "sorting", "writing"
  uint64_t done = 0;
  uint64_t total = 0;
};

struct LoadOptions {
  std::vector<NodeFile> nodes = {};
  std::vector<EdgeFile> edges = {};
  CsvDialect dialect = {};
  // Types by the name of a property ("int", "string"...), before what a header says. Others are
  // inferred from all values, of all files of the same label or type.
  std::map<std::string, std::string> types = {};
  // Lines that cannot be loaded go here, with the reason before them: FILE:LINE: REASON: TEXT.
  // Empty: the first such line is an error.
  std::string reject_path = {};
  int threads = 0;  // 0: as many as there are CPUs
  // The most that may be in memory before the sink gets it, estimated; looked at for each 4 MiB of
  // a file. 0: no limit.
  uint64_t memory_bytes = 0;
  std::string memory_hint = {};  // ends the error of that limit
  // Called now and then, by the calling thread, once a load takes longer than `quiet_ns`.
  std::function<void(const LoadProgress&)> progress = {};
  int64_t quiet_ns = 2'000'000'000;
  // True: the load ends with Cancelled. What follows LoadCsv() is not of this.
  const Interrupted* interrupted = nullptr;
  RunOptions run = {};  // but for the side
};

struct LoadReport {
  uint64_t nodes = 0;
  uint64_t edges = 0;
  uint64_t bytes = 0;                 // of all files
  uint64_t memory_bytes = 0;          // the most that was in memory, as LoadOptions counts it
  uint64_t rejected = 0;              // lines, those of the three following among them
  uint64_t dangling = 0;              // relationships of a node that is not there
  uint64_t duplicates = 0;            // nodes of a key that is there already
  uint64_t violations = 0;            // lines that break a constraint
  std::vector<std::string> examples;  // of rejected lines
  int64_t read_ns = 0, sort_ns = 0, write_ns = 0;
};

// ResourceExhausted beyond the limit of memory.
absl::StatusOr<LoadReport> LoadCsv(const LoadOptions& options, LoadSink* sink);

}  // namespace pulse::graph
