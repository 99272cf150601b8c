// A graph database with GTPC's data, and its queries run and timed. Main thread only; blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/macro/graph/gtpc_data.h"
#include "bench/macro/graph/gtpc_files.h"
#include "services/graph/core/store.h"
#include "services/graph/session/service.h"

namespace pulse::bench {

struct QueryRun {
  std::vector<std::string> columns;
  std::vector<std::vector<cypher::Value>> rows;  // as far as they were kept
  uint64_t row_count = 0;
  double seconds = 0, cpu_seconds = 0;
};

class GtpcDatabase {
 public:
  struct Loaded {
    graph::LoadReport report;
    double seconds = 0;
    uint64_t csv_bytes = 0;
  };
  // Says what is done: "writing CSV", "reading FILE", with how much of it. May be null.
  using Report = std::function<void(const std::string& what, uint64_t done, uint64_t total)>;

  struct MakeOptions {
    graph::StoreOptions store;
    // Through one transaction, so that all relationships are in layer 0; else as runs.
    bool by_transaction = false;
    // Of orders beyond it (0: of none) the lines get their relationships by AddLineEdges().
    int64_t last_order = 0;
    int query_threads = 0;  // of one query that only reads; 0: the service's default
  };

  // Makes the files in `csv_dir` and loads them into a new database in `path`; both directories
  // exist, empty. The files stay.
  static absl::StatusOr<std::unique_ptr<GtpcDatabase>> Make(const GtpcData& data,
                                                            const std::string& csv_dir,
                                                            const std::string& path,
                                                            const MakeOptions& options,
                                                            const Report& report);

  const Loaded& loaded() const { return loaded_; }
  graph::GraphStore* store() { return store_.get(); }
  cypher::GraphService* service() { return service_.get(); }

  // The relationships of lines of the orders from `first_order` on, by one transaction: layer 0.
  absl::Status AddLineEdges(const GtpcData& data, int64_t first_order);
  // An index for each label that transactions look nodes up by.
  absl::Status CreateIndexes();

  // Plans, runs, and takes all rows. DeadlineExceeded after `seconds` (0: no limit). With
  // `keep_rows` the rows are there afterwards; only those without nodes and relationships should
  // be kept.
  absl::StatusOr<QueryRun> Run(const std::string& text, double seconds, bool keep_rows,
                               const cypher::ValueMap* parameters = nullptr);

 private:
  GtpcDatabase() = default;
  // Nodes of a label by their `id`, from 1 on.
  absl::StatusOr<std::vector<cypher::NodeId>> NodesById(const std::string& label) const;
  Loaded loaded_;
  std::unique_ptr<graph::GraphStore> store_;
  std::unique_ptr<cypher::GraphService> service_;
};

// Whether an error of Run is that of its time.
bool IsTimeout(const absl::Status& status);

}  // namespace pulse::bench
