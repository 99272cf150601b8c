// `pulse graph check`: reads all of a graph database, names each damage, and says what can be done.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/graph/cmd_load.h"
#include "base/errors.h"
#include "services/graph/core/committed.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/mapped_runs.h"
#include "services/graph/core/store.h"
#include "services/graph/runs/run_reader.h"

namespace pulse {
namespace {

// So many damages are named; of the others the number.
constexpr size_t kMostNamed = 20;

// All nodes and relationships of a view, with their labels and properties, so that every block is
// read and its checksum compared.
absl::Status ReadAll(const cypher::GraphView& view, uint64_t* nodes, uint64_t* edges) {
  std::array<cypher::NodeId, 1024> ids;
  cypher::Properties properties;
  uint64_t incoming = 0;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, view.ScanNodes(cypher::kNoToken, &position, ids));
    if (n == 0) break;
    for (size_t i = 0; i < n; ++i) {
      properties.clear();
      PULSE_RETURN_IF_ERROR(view.ReadNodeProperties(ids[i], &properties));
    }
    *nodes += n;
    // The incoming side, too: the scan below reads the outgoing one.
    cypher::NeighbourBatch batch;
    cypher::ExpandPosition at;
    while (at.node < n) {
      batch.clear();
      PULSE_RETURN_IF_ERROR(
          view.Expand({ids.data(), n}, cypher::Direction::kIn, {}, 4096, &at, &batch));
      incoming += batch.node.size();
      for (const cypher::NodeId other : batch.node) {
        PULSE_ASSIGN_OR_RETURN(const bool exists, view.NodeExists(other));
        if (!exists) {
          return absl::DataLossError(
              absl::StrCat("a relationship comes from node ", other, ", which is not there"));
        }
      }
    }
  }
  std::array<cypher::EdgeRef, 1024> refs;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t n, view.ScanEdges({}, &position, refs));
    if (n == 0) break;
    for (size_t i = 0; i < n; ++i) {
      properties.clear();
      PULSE_RETURN_IF_ERROR(view.ReadEdgeProperties(refs[i], &properties));
    }
    *edges += n;
  }
  if (*edges == incoming) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("nodes have ", *edges, " outgoing and ", incoming,
                                          " incoming relationships: a run is not this database's"));
}

// A system call has failed on a file, as on a directory in its place or a device that is damaged;
// not for want of permission, memory or descriptors, whose remedy is another one.
bool IsUnreadable(const absl::Status& status) {
  return ErrnoOf(status) != 0 && !absl::IsNotFound(status) && !absl::IsPermissionDenied(status) &&
         !absl::IsResourceExhausted(status);
}

class Check {
 public:
  Check(std::string db, bool quiet) : db_(std::move(db)), quiet_(quiet) {}

  absl::Status Run() {
    // All before any is read: a writer may remove files meanwhile.
    auto mapped = graph::MapRuns(graph::SystemFiles(), db_);
    absl::Status status = mapped.status();
    if (absl::IsNotFound(status) || IsUnreadable(status)) {
      const auto names = graph::SystemFiles()->List(db_);
      if (!names.ok() || std::none_of(names->begin(), names->end(), graph::IsFileOfDatabase)) {
        return absl::NotFoundError(absl::StrCat(db_, ": there is no graph database"));
      }
      if (absl::IsNotFound(status)) status = absl::DataLossError(db_ + "/MANIFEST is missing");
    }
    if (absl::IsDataLoss(status) || IsUnreadable(status)) {
      Name(status);
      return Damaged("without it nobody knows which files count");
    }
    PULSE_RETURN_IF_ERROR(status);
    for (size_t i = 0; i < mapped->runs.size(); ++i) {
      PULSE_RETURN_IF_ERROR(CheckRun(absl::StrCat(db_, "/", mapped->manifest.runs[i].file),
                                     std::move(mapped->runs[i])));
    }
    return CheckStore();
  }

 private:
  void Name(const absl::Status& status) {
    if (++damages_ <= kMostNamed) named_.emplace_back(status.message());
  }

  absl::Status CheckRun(const std::string& path, absl::StatusOr<graph::RunBytes> bytes) {
    // No damage: the message ends with the remedy, as for want of permission.
    const auto lost = [this](const absl::Status& status) {
      if (!absl::IsDataLoss(status)) return status;
      Name(status);
      runs_missing_ = true;
      return absl::OkStatus();
    };
    if (absl::IsNotFound(bytes.status())) {
      return lost(absl::DataLossError(absl::StrCat("the run ", path, " is missing")));
    }
    if (!bytes.ok()) {
      return lost(absl::Status(
          IsUnreadable(bytes.status()) ? absl::StatusCode::kDataLoss : bytes.status().code(),
          absl::StrCat("the run ", path, " cannot be read: ", bytes.status().message())));
    }
    const auto run = graph::RunReader::Open(*std::move(bytes));
    if (!run.ok()) return lost(run.status());
    runs_damaged_ |= !(*run)->Verify([this](const absl::Status& status) { Name(status); }).ok();
    return absl::OkStatus();
  }

  absl::Status CheckStore() {
    const absl::Status committed = graph::CheckCommittedIsWhole(graph::SystemFiles(), db_);
    if (absl::IsDataLoss(committed) || IsUnreadable(committed)) {
      Name(committed);
    } else if (!committed.ok()) {
      return absl::Status(committed.code(), Say(committed));
    }
    graph::StoreOptions options;
    options.read_only = true;
    auto store = graph::GraphStore::Open(db_, options);
    if (!store.ok() && (!absl::IsDataLoss(store.status()) || runs_missing_)) {
      const bool of_a_file = absl::IsNotFound(store.status()) || IsUnreadable(store.status());
      if (damages_ == 0 && !of_a_file) {
        return absl::Status(store.status().code(), Say(store.status()));
      }
      if (!runs_missing_) Name(store.status());  // a file that the manifest names
      return Damaged("it cannot be opened without this file");
    }
    bool log_damaged = false;
    if (!store.ok()) {
      Name(store.status());
      options.allow_damage = true;
      store = graph::GraphStore::Open(db_, options);
      if (!store.ok()) return Damaged("it cannot be opened without this file");
      log_damaged = true;
    }
    uint64_t nodes = 0, edges = 0;
    PULSE_ASSIGN_OR_RETURN(const auto view, (*store)->Snapshot());
    const absl::Status read = ReadAll(*view, &nodes, &edges);
    // What a run holds was named above.
    if (!read.ok() && !runs_damaged_) Name(read);
    const std::string lost = (*store)->stats().damage;
    const bool end_lost = !log_damaged && !lost.empty();
    if (end_lost) Name(absl::DataLossError(lost));
    if (damages_ == 0) {
      if (quiet_) return absl::OkStatus();
      std::printf("%s: sound: %" PRIu64 " nodes, %" PRIu64 " relationships, commit %" PRIu64 "\n",
                  db_.c_str(), nodes, edges, (*store)->sequence());
      return absl::OkStatus();
    }
    if (damages_ == 1 && !committed.ok()) {
      return absl::DataLossError(
          absl::StrCat(db_, " is damaged:\n  ", committed.message(), "\nAll else is whole: ", nodes,
                       " nodes, ", edges, " relationships, commit ", (*store)->sequence(),
                       "; but that file alone says whether the log has lost commits at its "
                       "end.\nRemedy: ",
                       absl::IsDataLoss(committed) ? "" : "move the file away; ",
                       "whoever opens the database for writing makes the file anew."));
    }
    const std::string there = absl::StrCat(
        "commits up to ", (*store)->sequence(),
        read.ok() ? absl::StrCat(" (", nodes, " nodes, ", edges, " relationships)") : "");
    if (end_lost) {
      return Damaged(absl::StrCat(there,
                                  " can be read; whoever opens it for writing goes on from there, "
                                  "and nothing says afterwards that later ones were lost"));
    }
    if (log_damaged) {
      return Damaged(
          absl::StrCat(there, ", which come before the damage, can be read: `pulse graph query ",
                       db_, " --damaged 'MATCH ...'`"));
    }
    return Damaged(absl::StrCat("what lies elsewhere can be read: `pulse graph query ", db_,
                                " --read-only 'MATCH ...'`; a compaction that meets the damage "
                                "fails, and changes nothing"));
  }

  std::string Say(const absl::Status& status) const {
    return absl::StrCat(db_, ": ", status.message());
  }

  // All that was found, and the remedy.
  absl::Status Damaged(const std::string& rest) const {
    std::string text = absl::StrCat(db_, " is damaged:");
    for (const std::string& one : named_) absl::StrAppend(&text, "\n  ", one);
    if (damages_ > named_.size()) {
      absl::StrAppend(&text, "\n  and ", damages_ - named_.size(), " more");
    }
    absl::StrAppend(&text,
                    "\nRemedy: put a copy of the directory back that is older than the damage. ",
                    "Without one: `pulse graph salvage ", db_,
                    " --out NEW` makes a database of what can be read; ", rest, ".");
    return absl::DataLossError(text);
  }

  const std::string db_;
  const bool quiet_;
  std::vector<std::string> named_;
  size_t damages_ = 0;
  bool runs_missing_ = false;  // or of no use at all
  bool runs_damaged_ = false;
};

}  // namespace

absl::Status CheckGraph(const std::string& db, bool quiet) { return Check(db, quiet).Run(); }

void AddGraphCheckCommand(CLI::App* graph) {
  auto db = std::make_shared<std::string>();
  CLI::App* cmd = graph->add_subcommand(
      "check",
      "Read all of a graph database: log, checkpoint and runs, with their checksums. Exit status\n"
      "1 where something is damaged, with each file and place, and with what can be done.");
  cmd->add_option("DB", *db, "directory of the database")->required();
  cmd->callback([db] { Finish(CheckGraph(*db, false)); });
}

}  // namespace pulse
