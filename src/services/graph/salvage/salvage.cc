#include "services/graph/salvage/salvage.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/errors.h"
#include "base/shortage.h"
#include "services/graph/core/committed.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/store.h"
#include "services/graph/core/wal.h"
#include "services/graph/model/text.h"
#include "services/graph/salvage/notes.h"
#include "services/graph/salvage/salvaged_graph.h"
#include "services/graph/salvage/salvaged_log.h"
#include "services/graph/salvage/salvaged_runs.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using Edge = SalvagedRuns::Edge;
using State = SalvagedRuns::State;

// The new database's log. One commit after the other, of about a megabyte.
class LogWriter {
 public:
  static absl::StatusOr<std::unique_ptr<LogWriter>> Create(Files* files, const std::string& path,
                                                           uint64_t after) {
    std::unique_ptr<LogWriter> out(new LogWriter(after));
    PULSE_ASSIGN_OR_RETURN(out->wal_, Wal::Open(files, path, 1, WalOptions(), nullptr));
    return out;
  }
  OperationWriter& operations() { return operations_; }
  absl::Status FlushIfFull() {
    constexpr size_t kFull = size_t{1} << 20;
    return operations_.bytes().size() < kFull ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    const std::string payload = operations_.Take();
    operations_ = OperationWriter();
    if (payload.empty()) return absl::OkStatus();
    WalEntry entry;
    entry.sequence = ++sequence_;
    entry.payload = payload;
    WalEntry* entries[] = {&entry};
    wal_->Write(entries);
    return entry.result;
  }

 private:
  explicit LogWriter(uint64_t after) : sequence_(after) {}
  std::unique_ptr<Wal> wal_;
  OperationWriter operations_;
  uint64_t sequence_;
};

class Salvage {
 public:
  Salvage(std::string from, std::string to, const SalvageOptions& options)
      : from_(std::move(from)),
        to_(std::move(to)),
        options_(options),
        files_(options.files != nullptr ? options.files : SystemFiles()) {}

  absl::StatusOr<SalvageReport> Run() {
    PULSE_RETURN_IF_ERROR(ReadManifest());  // before a file is made where there is no database
    PULSE_ASSIGN_OR_RETURN(const auto lock, LockSource());
    const auto now = files_->Read(Concat(from_, "/", kManifestFile));
    if (absl::IsResourceExhausted(now.status())) return now.status();
    if (manifest_bytes_.ok() != now.ok() || (now.ok() && *manifest_bytes_ != *now)) {
      return absl::UnavailableError(
          Concat(from_, ": a program that wrote to it has just ended; try again"));
    }
    const auto there = files_->List(to_);
    PULSE_RETURN_IF_ERROR(files_->MakeDirectory(to_));
    if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
    if (there.ok() && !there->empty()) {
      return absl::FailedPreconditionError(
          Concat(to_, " is not empty: salvage makes a new database"));
    }
    absl::Status made = CatchNoMemory([this] { return Make(); });
    if (made.ok()) return std::move(report_);
    // What there is of it would stand in the way of another try; or it is somebody else's, who has
    // the lock.
    writer_.reset();
    if (const auto files = files_->List(to_); files.ok() && !absl::IsFailedPrecondition(made)) {
      for (const std::string& name : *files) files_->Remove(Concat(to_, "/", name)).IgnoreError();
    }
    // Which fails where it is not empty.
    if (!there.ok()) files_->Remove(to_).IgnoreError();
    return made;
  }

 private:
  absl::Status Make() {
    PULSE_RETURN_IF_ERROR(OpenRuns());
    PULSE_RETURN_IF_ERROR(ReadCheckpoint(checkpoints_));
    graph_.SetFlushed(manifest_.flushed);
    PULSE_ASSIGN_OR_RETURN(
        log_, ReadSalvagedLog(files_, from_, have_manifest_ ? manifest_.first_segment : 0, &notes_,
                              [this](uint64_t sequence, std::string_view payload) {
                                Note(graph_.Apply(sequence, payload),
                                     Concat("commit ", sequence, " of the log"));
                              }));
    PULSE_RETURN_IF_ERROR(NameLostEnd());
    nodes_whole_ = have_manifest_ && checkpoint_whole_ && log_.whole;
    PULSE_RETURN_IF_ERROR(Write());
    return MakeStore();
  }

  void Note(const absl::Status& status, const std::string& what) {
    if (!status.ok()) notes_.Name(Concat(what, ": ", std::string(status.message())));
  }

  absl::Status NameLostEnd() {
    const auto committed = ReadCommitted(files_, from_);
    if (absl::IsResourceExhausted(committed.status())) return committed.status();
    Note(committed.status(),
         "whether the log has lost commits at its end is not known, as COMMITTED cannot be read");
    if (!committed.ok() || !committed->has_value()) return absl::OkStatus();
    const uint64_t newest = std::max(log_.last_sequence, manifest_.checkpoint_sequence);
    const absl::Status there = CheckSyncedIsThere(**committed, newest, from_);
    if (there.ok()) return absl::OkStatus();
    notes_.Name(std::string(there.message()));
    report_.commits_lost += (*committed)->synced - newest;
    return absl::OkStatus();
  }

  // A LOCK that is made here goes again, before it is free.
  absl::StatusOr<std::shared_ptr<void>> LockSource() {
    const std::string path = Concat(from_, "/", kLockFile);
    const bool was_there = !absl::IsNotFound(files_->Size(path).status());
    auto lock = files_->Lock(path);
    const absl::Status status = lock.status();
    if (absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status)) return status;
    if (status.ok() && !was_there) {
      lock = std::shared_ptr<void>(nullptr, [files = files_, path, held = *lock](void*) {
        files->Remove(path).IgnoreError();
      });
    }
    // A writer whose LOCK somebody has removed has COMMITTED. It is not made here.
    if (files_->Size(Concat(from_, "/", kCommittedFile)).ok()) {
      auto committed = CommittedWriter::Open(files_, from_);
      if (absl::IsFailedPrecondition(committed.status())) return committed.status();
      if (committed.ok()) committed_ = *std::move(committed);
    }
    if (status.ok()) return lock;
    // On a medium that is mounted for reading, nobody writes.
    if (ErrnoOf(status) != EROFS) {
      ++not_of_graph_;
      notes_.Name(Concat(path, " cannot be locked: ", std::string(status.message()),
                         "; nothing of the graph is in it",
                         committed_ != nullptr ? ""
                                               : ", but a program that writes to the database "
                                                 "meanwhile is not kept out"));
    }
    return std::shared_ptr<void>();
  }

  absl::Status ReadManifest() {
    const std::string path = Concat(from_, "/", kManifestFile);
    manifest_bytes_ = files_->Read(path);
    const auto& bytes = manifest_bytes_;
    if (absl::IsPermissionDenied(bytes.status()) || absl::IsResourceExhausted(bytes.status())) {
      return bytes.status();
    }
    absl::Status status = bytes.status();
    if (bytes.ok()) {
      auto manifest = Manifest::Decode(*bytes, path);
      if (!manifest.ok() && Manifest::ChecksumFits(*bytes)) {
        // A newer format, or this one with its beginning damaged, which no checksum covers.
        const absl::Status refused = manifest.status();
        manifest = Manifest::DecodeBody(*bytes, path);
        if (!manifest.ok() && absl::IsFailedPrecondition(refused)) return refused;
        if (manifest.ok()) {
          notes_.Name(Concat(path, " is damaged: its beginning, or the number of its format"));
        }
      }
      status = manifest.status();
      if (manifest.ok()) manifest_ = *std::move(manifest);
    }
    have_manifest_ = status.ok();
    if (have_manifest_) {
      checkpoint_whole_ = manifest_.checkpoint.empty();
      if (!checkpoint_whole_) checkpoints_ = {manifest_.checkpoint};
      return absl::OkStatus();
    }
    PULSE_RETURN_IF_ERROR(GuessFiles());
    ++report_.files_lost;
    notes_.Name(
        Concat(path,
               bytes.ok() ? " is damaged"
               : absl::IsNotFound(bytes.status())
                   ? " is missing"
                   : Concat(" cannot be read (", std::string(bytes.status().message()), ")"),
               ": all files of the directory were taken for the database's; what was "
               "deleted may be there again"));
    return absl::OkStatus();
  }

  // Without a manifest: all there is. Greater numbers are mostly newer.
  absl::Status GuessFiles() {
    const auto listed = files_->List(from_);
    if (!listed.ok() && !absl::IsNotFound(listed.status())) return listed.status();
    std::vector<std::string> names;
    if (listed.ok()) names = *listed;
    std::sort(names.rbegin(), names.rend());
    for (const std::string& name : names) {
      if (name.ends_with(".run")) runs_found_.push_back(name);
      if (name.ends_with(".ckpt")) checkpoints_.push_back(name);
    }
    if (std::any_of(names.begin(), names.end(), IsFileOfDatabase)) return absl::OkStatus();
    return absl::NotFoundError(Concat(from_, ": there is nothing of a graph database"));
  }

  absl::Status OpenRuns() {
    for (const std::string& name : runs_found_) {
      const std::string path = Concat(from_, "/", name);
      PULSE_RETURN_IF_ERROR(runs_.Add(path, nullptr, files_->Map(path), &notes_));
    }
    for (const ManifestRun& run : manifest_.runs) {
      const std::string path = Concat(from_, "/", run.file);
      PULSE_RETURN_IF_ERROR(runs_.Add(path, &run.side, files_->Map(path), &notes_));
    }
    return absl::OkStatus();
  }

  // One that was being written is not whole, and the one before it counts. Of those that are
  // damaged, the first one that can be read.
  absl::Status ReadCheckpoint(const std::vector<std::string>& names) {
    std::string damaged;
    for (const std::string& name : names) {
      const std::string path = Concat(from_, "/", name);
      const auto bytes = files_->Read(path);
      // What this process is short of is no damage.
      if (absl::IsResourceExhausted(bytes.status())) return bytes.status();
      if (!bytes.ok()) {
        ++report_.files_lost;
        notes_.Name(Concat("the checkpoint ", path,
                           absl::IsNotFound(bytes.status())
                               ? " is missing"
                               : Concat(" cannot be read: ", std::string(bytes.status().message())),
                           "; of nodes, names and indexes, what the log does not have is lost"));
        continue;
      }
      const bool known = names.size() == 1;
      if (known || ReadDamagedCheckpoint(
                       *bytes, [](std::string_view) {}, [](size_t, size_t) {})) {
        ApplyCheckpoint(path, *bytes);
        return absl::OkStatus();
      }
      if (damaged.empty()) damaged = name;
    }
    return damaged.empty() ? absl::OkStatus() : ReadCheckpoint({damaged});
  }

  void ApplyCheckpoint(const std::string& path, std::string_view bytes) {
    std::optional<NodeId> before;   // the last node of the frame before
    std::vector<std::string> open;  // damages whose nodes are not known yet
    const auto end = [&](const std::string& nodes) {
      for (const std::string& one : std::exchange(open, {})) notes_.Name(one + nodes);
    };
    checkpoint_whole_ = ReadDamagedCheckpoint(
        bytes,
        [&](std::string_view payload) {
          Note(graph_.Apply(0, payload), Concat("the checkpoint ", path));
          if (graph_.first_made() > graph_.last_made()) return;
          const NodeId first = graph_.first_made();
          end(!before.has_value() ? Concat("; nodes before ", first)
                                  : Concat("; nodes between ", *before, " and ", first));
          before = graph_.last_made();
        },
        [&](size_t begin, size_t behind) {
          ++report_.frames_lost;
          open.push_back(begin == behind
                             ? Concat("the checkpoint ", path, " ends too early, at byte ", begin)
                             : Concat("the checkpoint ", path, " is damaged: bytes ", begin, " to ",
                                      behind - 1));
        });
    end(before.has_value() ? Concat("; nodes after ", *before) : std::string());
  }

  // --- Writing ---

  absl::Status Write() {
    PULSE_ASSIGN_OR_RETURN(writer_, LogWriter::Create(files_, to_, log_.last_sequence));
    WriteNames();
    for (const auto& [id, node] : graph_.nodes()) {
      for (const Token label : node.labels) Use(NameKind::kLabel, label);
      UseKeys(node.properties);
    }
    WriteIndexes();
    for (const auto& [id, node] : graph_.nodes()) {
      if (node.deleted) continue;
      writer_->operations().CreateNode(id, node.labels, node.properties);
      ++report_.nodes;
      PULSE_RETURN_IF_ERROR(writer_->FlushIfFull());
    }
    PULSE_RETURN_IF_ERROR(WriteOutgoing());
    if (runs_.AnyLost(Side::kOut)) PULSE_RETURN_IF_ERROR(WriteFromIncoming());
    PULSE_RETURN_IF_ERROR(WriteLogged());
    writer_->operations().Counters(graph_.next_node(),
                                   std::max(graph_.next_edge(), manifest_.next_edge));
    return writer_->Flush();
  }

  void WriteNames() {
    for (const NameKind kind : {NameKind::kLabel, NameKind::kType, NameKind::kKey}) {
      for (const auto& [token, name] : graph_.names(kind)) {
        // Two with one name are none that a database has made.
        if (!names_[static_cast<size_t>(kind)].insert(name).second) continue;
        writer_->operations().Name(kind, token, name);
        used_[static_cast<size_t>(kind)].insert(token);
      }
    }
  }

  // A name that was lost gets one that says so, before it is used.
  void Use(NameKind kind, Token token) {
    const auto k = static_cast<size_t>(kind);
    if (!used_[k].insert(token).second) return;
    static constexpr const char* kKinds[] = {"label", "type", "key"};
    std::string name = Concat("lost_", kKinds[k], "_", token);
    while (!names_[k].insert(name).second) name += "_";
    notes_.Name(Concat("the name of ", kKinds[k], " ", token, " is lost; it is called ", name));
    ++report_.names_made_up;
    writer_->operations().Name(kind, token, name);
  }
  void UseKeys(std::string_view properties) {
    Properties all;
    if (properties.empty() || !DecodeProperties(properties, &all)) return;
    for (const auto& [key, value] : all) Use(NameKind::kKey, key);
  }

  void WriteIndexes() {
    const bool all_whole = report_.damages.size() == not_of_graph_;
    for (const auto& [name, index] : graph_.indexes()) {
      bool known =
          !name.empty() && !index.keys.empty() &&
          names_[static_cast<size_t>(index.of_edges ? NameKind::kType : NameKind::kLabel)].contains(
              index.label);
      for (const std::string& key : index.keys) {
        known = known && names_[static_cast<size_t>(NameKind::kKey)].contains(key);
      }
      if (!known) {
        notes_.Name(Concat("index ", name, " is left out: names of its are lost"));
      } else if (index.constraint && !(index.of_edges ? all_whole : nodes_whole_)) {
        notes_.Name(Concat("constraint ", name, " is left out: with ",
                           index.of_edges ? "damage" : "nodes or changes of nodes lost",
                           " it may not hold; make it again"));
      } else {
        extended_ |= index.IsExtended();
        writer_->operations().CreateIndex(index);
      }
    }
  }

  // Whether the node is there, or is now.
  absl::StatusOr<bool> HaveNode(NodeId id) {
    const SalvagedGraph::Node* node = graph_.FindNode(id);
    if (node != nullptr) return !node->deleted;
    // All nodes are known: it was deleted before the checkpoint.
    if (nodes_whole_) return false;
    graph_.AddBareNode(id);
    ++report_.bare_nodes;
    ++report_.nodes;
    writer_->operations().CreateNode(id, {}, {});
    return true;
  }

  absl::Status WriteEdge(const EdgeRef& edge, std::string_view properties) {
    for (const NodeId node : {edge.source, edge.target}) {
      PULSE_ASSIGN_OR_RETURN(const bool have, HaveNode(node));
      if (have) continue;
      ++report_.edges_without_node;
      return absl::OkStatus();
    }
    Use(NameKind::kType, edge.type);
    UseKeys(properties);
    graph_.CountEdge(edge.id);
    writer_->operations().CreateEdge(edge, properties);
    ++report_.edges;
    return writer_->FlushIfFull();
  }

  // One of the runs, with what the log has of it. `lost`: keys whose value is; `all_lost`: any.
  absl::Status WriteOfRuns(const EdgeRef& edge, const Properties& properties,
                           const std::vector<Token>& lost, bool all_lost) {
    SalvagedGraph::LoggedEdge* const logged = graph_.FindEdge(edge.id);
    if (logged == nullptr) return WriteEdge(edge, EncodeProperties(properties));
    if (std::exchange(logged->written, true) || logged->deleted) return absl::OkStatus();
    Properties all = properties, known;
    if (!lost.empty() || all_lost) DecodeProperties(logged->known, &known);
    for (auto& [key, value] : known) {
      if (all_lost || std::find(lost.begin(), lost.end(), key) != lost.end()) {
        all.emplace_back(key, std::move(value));
      }
    }
    std::string changed;
    if (!ChangeProperties(EncodeProperties(all), logged->changes, &changed)) {
      changed = EncodeProperties(all);
    }
    return WriteEdge(edge, changed);
  }

  absl::Status WriteOutgoing() {
    Properties properties;
    std::vector<Token> lost;
    return runs_.ForEachNode(Side::kOut, [&](std::span<const Edge> edges) -> absl::Status {
      // Where nothing is lost, what the outgoing runs say is so.
      const bool partly = runs_.Lost(Side::kOut, edges.front().ref.source);
      for (const Edge& edge : edges) {
        if (partly) {
          const State in = runs_.Look(Side::kIn, edge.ref);
          if (in == State::kDead) continue;
          if (in == State::kUnknown && !runs_.Lost(Side::kIn, edge.ref.target)) continue;
        }
        const bool known = runs_.ReadProperties(edge, &properties, &lost);
        PULSE_RETURN_IF_ERROR(WriteOfRuns(edge.ref, properties, lost, !known));
      }
      return absl::OkStatus();
    });
  }

  absl::Status WriteFromIncoming() {
    return runs_.ForEachNode(Side::kIn, [&](std::span<const Edge> edges) -> absl::Status {
      for (const Edge& edge : edges) {
        if (!runs_.Lost(Side::kOut, edge.ref.source)) continue;
        if (runs_.Look(Side::kOut, edge.ref) != State::kUnknown) continue;
        const uint64_t before = report_.edges;
        PULSE_RETURN_IF_ERROR(WriteOfRuns(edge.ref, {}, {}, true));
        report_.edges_from_other_side += report_.edges - before;
      }
      return absl::OkStatus();
    });
  }

  // Those that only the log has.
  absl::Status WriteLogged() {
    for (auto& [id, edge] : graph_.edges()) {
      if (edge.written || edge.deleted) continue;
      // Up to `flushed` runs know better, where they can be read.
      if (edge.sequence <= manifest_.flushed && !runs_.Lost(Side::kOut, edge.ref.source)) continue;
      PULSE_RETURN_IF_ERROR(WriteEdge(edge.ref, edge.known));
    }
    return absl::OkStatus();
  }

  absl::Status MakeStore() {
    writer_.reset();
    // Before it, the directory is none of a database that is whole.
    Manifest manifest;
    if (extended_) manifest.format = kStoreFormat;
    PULSE_RETURN_IF_ERROR(files_->Replace(to_, kManifestFile, manifest.Encode()));
    StoreOptions options;
    options.memory_limit = options_.memory_limit;
    options.files = files_;
    options.engines = options_.engines;
    PULSE_ASSIGN_OR_RETURN(const auto store, GraphStore::Open(to_, options));
    PULSE_RETURN_IF_ERROR(store->Compact());
    return store->Close();
  }

  const std::string from_, to_;
  const SalvageOptions options_;
  Files* const files_;
  SalvageReport report_;
  SalvageNotes notes_{&report_};
  size_t not_of_graph_ = 0;  // notes
  Manifest manifest_;
  absl::StatusOr<std::string> manifest_bytes_ = absl::NotFoundError("not read yet");
  bool have_manifest_ = false;
  std::vector<std::string> runs_found_;   // without a manifest
  std::vector<std::string> checkpoints_;  // that may count
  bool checkpoint_whole_ = false;
  bool nodes_whole_ = false;
  bool extended_ = false;  // an index needs the newest format
  SalvagedLog log_;
  SalvagedGraph graph_;
  SalvagedRuns runs_;
  std::unique_ptr<CommittedWriter> committed_;  // for its lock; null: there is none
  std::unique_ptr<LogWriter> writer_;
  absl::flat_hash_set<Token> used_[3];
  absl::flat_hash_set<std::string> names_[3];
};

}  // namespace

absl::StatusOr<SalvageReport> SalvageGraph(const std::string& from, const std::string& to,
                                           const SalvageOptions& options) {
  return Salvage(from, to, options).Run();
}

}  // namespace pulse::graph
