// What the parts of `pulse bench graph` share. Each part measures, prints its tables and adds its
// rows to the report. Main thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

struct GraphBench {
  std::string dir;  // to work in
  std::vector<uint64_t> warehouses = {1};
  std::vector<std::string> variants = {"repaired"};  // and "published"
  std::vector<std::string> only;                     // queries of GTPC; empty: all
  std::string answers_file;                          // JSON with the rows of each query
  double query_seconds = 20;                         // then it counts as a timeout
  int query_threads = 0;                             // of one of GTPC's queries; 0: the default
  int rounds = 3;
  uint64_t seed = 1;
  uint64_t most_bytes = uint64_t{256} << 20;  // of what is copied, flushed or merged
  bool tiny = false;
  bool keep = false;
  nlohmann::json report = nlohmann::json::object();
  // What the paper's text has figures for, by its key in data/graph.json.
  std::map<std::string, double> here;
};

// Figure 3: copies by size and engine.
absl::Status RunCopyPart(GraphBench* bench);
// Figure 4: chunks into a sorted list.
absl::Status RunFlushPart(GraphBench* bench);
// Figure 5: compaction of large blocks, and of R-MAT.
absl::Status RunMergePart(GraphBench* bench);
// Figure 6: GTPC's transactions by structure.
absl::Status RunOltpPart(GraphBench* bench);
// GTPC's transactions beside compactions, by whose CPU these are done.
absl::Status RunBesidePart(GraphBench* bench);
// Figure 7: a column added up by threads.
absl::Status RunSumPart(GraphBench* bench);
// Figure 8: growing transactions on few nodes, against a plain adjacency list.
absl::Status RunUpdatesPart(GraphBench* bench);
// Inserts and scans of neighbours in C++, on one CPU.
absl::Status RunCorePart(GraphBench* bench);
// Opening after a kill.
absl::Status RunReopenPart(GraphBench* bench);
// GTPC's 22 analytical queries.
absl::Status RunGtpcPart(GraphBench* bench);

// Wall and CPU time (of the whole process, all threads) since it was made.
class Stretch {
 public:
  Stretch() : wall_(NowNanos()), cpu_(CpuNanos()) {}
  double seconds() const { return static_cast<double>(NowNanos() - wall_) * 1e-9; }
  double cpu_seconds() const { return static_cast<double>(CpuNanos() - cpu_) * 1e-9; }

 private:
  static int64_t CpuNanos();
  const int64_t wall_, cpu_;
};

// With all above it; OK where it is there.
absl::Status MakeDirectory(const std::string& path);

}  // namespace pulse::bench
