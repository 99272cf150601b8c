// Maintenance: flushes of layer 0, checkpoints, and what memory may forget; compaction is
// store_merge.cc.
#include <malloc.h>

#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "services/graph/core/checkpoint.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/core/store_new_files.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/engines.h"
#include "services/graph/runs/flush_plan.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr uint64_t kTrimFrom = uint64_t{8} << 20;

class VersionProperties : public PropertySource {
 public:
  explicit VersionProperties(const EdgeVersions* edges) : edges_(edges) {}
  const Properties* Find(const Record& record) override {
    bool any = false;
    edges_->Read(record.edge, SequenceOf(record.stamp), [&](std::string_view bytes) {
      any = !bytes.empty() && DecodeProperties(bytes, &properties_);
    });
    return any ? &properties_ : nullptr;
  }
  void Prefetch(std::span<const Record> records) override {
    for (const Record& record : records) edges_->PrefetchEntry(record.edge);
    for (const Record& record : records) edges_->PrefetchVersion(record.edge);
  }

 private:
  const EdgeVersions* const edges_;
  Properties properties_;
};

}  // namespace

void StoreImpl::InstallLayers(std::shared_ptr<const Layers> layers) {
  std::lock_guard lock(view_mu_);
  layers_ = std::move(layers);
  alive_.push_back(layers_);
}

void StoreImpl::CutEdges() {
  uint64_t flushed;
  {
    std::lock_guard lock(view_mu_);
    flushed = layers_->flushed;
    std::erase_if(alive_, [&flushed](const std::weak_ptr<const Layers>& weak) {
      const auto layers = weak.lock();
      if (layers == nullptr) return true;
      flushed = std::min(flushed, layers->flushed);
      return false;
    });
  }
  const uint64_t before = tables_.edges.memory();
  tables_.edges.Cut(flushed);
  // The allocator keeps what was freed in small pieces, unless it is told that they will not be
  // wanted soon.
  if (before - std::min(before, tables_.edges.memory()) >= kTrimFrom) malloc_trim(0);
}

uint64_t StoreImpl::MemoryUsed() const {
  std::lock_guard lock(view_mu_);
  const uint64_t chunks = layers_->out.chunks.size() + layers_->in.chunks.size();
  return chunks * L0Chunk::memory() + tables_.edges.memory();
}

bool StoreImpl::WantsFlush() const {
  if (options_.flush_chunks == 0 || !options_.background) return false;
  std::lock_guard lock(view_mu_);
  const uint64_t chunks = layers_->out.chunks.size() + layers_->in.chunks.size();
  // The newest of each direction is being filled.
  if (std::max(layers_->out.chunks.size(), layers_->in.chunks.size()) > options_.flush_chunks) {
    return true;
  }
  return chunks * L0Chunk::memory() + tables_.edges.memory() > options_.memory_limit / 2 ||
         WantsCheckpoint();
}

bool StoreImpl::WantsCheckpoint() const {
  return wal_ != nullptr && wal_->bytes() > std::max({options_.checkpoint_bytes,
                                                      checkpoint_size_.load(), checkpoint_from_});
}

absl::Status StoreImpl::WaitForMemory(std::unique_lock<std::mutex>* lock) {
  if (!options_.background || options_.flush_chunks == 0) return absl::OkStatus();
  // A round that began after this one freed what can be freed: the rest is held by snapshots, this
  // transaction's among them, and waiting for it could last for ever. One that failed may have
  // begun before there was space again.
  const uint64_t enough = maintenance_rounds_ + 2;
  while (MemoryUsed() > options_.memory_limit && !closed_) {
    if (maintenance_rounds_ >= enough) {
      std::lock_guard stats(stats_mu_);
      if (stats_.maintenance.ok()) break;
      return absl::ResourceExhaustedError(
          Concat("the memory limit is reached, and nothing can be flushed: ",
                 std::string(stats_.maintenance.message())));
    }
    WakeMaintenance();
    memory_cv_.wait(*lock);
  }
  return absl::OkStatus();
}

std::string StoreImpl::NewFile(std::string_view suffix) {
  std::string digits = std::to_string(next_file_++);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return digits + std::string(suffix);
}

void StoreImpl::ListRuns(const Layers& layers, Manifest* manifest) const {
  manifest->runs.clear();
  for (const Side side : {Side::kOut, Side::kIn}) {
    for (const Run& run : layers.side(side).runs) {
      manifest->runs.push_back({run.file, side, run.level});
    }
  }
  manifest->flushed = layers.flushed;
  manifest->next_file = next_file_;
}

absl::Status StoreImpl::WriteManifest(const Manifest& manifest, NewFiles* made) {
  const absl::Status written = files_->Replace(path_, kManifestFile, manifest.Encode());
  if (!written.ok()) {
    // As long as the old one has the name, no power cut brings the new one back, and what that
    // names.
    const auto now = files_->Read(PathOf(kManifestFile));
    const auto before = now.ok() ? Manifest::Decode(*now, PathOf(kManifestFile)) : now.status();
    if (!before.ok() || before->Encode() != manifest_.Encode()) made->Keep();
    return written;
  }
  made->Keep();
  manifest_ = manifest;
  format_ = manifest.format;
  return absl::OkStatus();
}

absl::Status StoreImpl::RaiseFormat(uint32_t format) {
  if (manifest_.format >= format) return absl::OkStatus();
  Manifest manifest = manifest_;
  manifest.format = format;
  NewFiles none(this);
  return WriteManifest(manifest, &none);
}

// What is left after an error is a stray of the next opening.
void StoreImpl::RemoveFiles(const std::vector<std::string>& files) {
  for (const std::string& file : files) files_->Remove(PathOf(file)).IgnoreError();
}

absl::StatusOr<std::optional<Run>> StoreImpl::WriteRun(
    Side side, std::span<const std::shared_ptr<L0Chunk>> newest_first) {
  std::vector<Chunk> chunks;
  uint64_t records = 0;
  for (auto it = newest_first.rbegin(); it != newest_first.rend(); ++it) {
    chunks.push_back((*it)->chunk());
    records += (*it)->chunk().size();
  }
  if (records == 0) return std::optional<Run>();
  std::vector<Record> sorted(records);
  const FlushPlan plan = PlanFlush(chunks, sorted.data());
  {
    EngineWork work;
    work.kind = EngineWork::Kind::kFlush;
    work.bytes = records * sizeof(Record);
    PULSE_ASSIGN_OR_RETURN(const EngineChoice choice, engines_->Choose(work));
    const Meter meter;
    PlanExecutor executor(choice.engine.get());
    executor.Start(plan.copies);
    PULSE_RETURN_IF_ERROR(executor.Wait());
    engines_->Report(work, meter.Of(choice, executor.stats()));
    CountCopies(choice.name, work.kind, executor.stats().bytes);
  }
  NewFiles made(this);
  const std::string name = made.Name(".run");
  {
    PULSE_ASSIGN_OR_RETURN(const auto file, files_->Create(PathOf(name)));
    RunFile sink(file.get());
    RunOptions options;
    options.side = side;
    options.horizon = oldest_.load(std::memory_order_acquire);
    PULSE_ASSIGN_OR_RETURN(const auto builder, RunBuilder::Create(options, &sink));
    VersionProperties properties(&tables_.edges);
    PULSE_RETURN_IF_ERROR(
        AddSorted(plan, sorted.data(), side == Side::kOut ? &properties : nullptr, builder.get()));
    PULSE_RETURN_IF_ERROR(builder->Finish().status());
    PULSE_RETURN_IF_ERROR(file->Sync());
  }
  PULSE_ASSIGN_OR_RETURN(Run run, OpenRun({name, side, 1}));
  made.Keep();
  return std::optional<Run>(std::move(run));
}

absl::Status StoreImpl::WriteCheckpoint(const View& view,
                                        const std::vector<IndexDefinition>& indexes,
                                        const LoadedGraph* load, std::string* name) {
  NewFiles made(this);
  *name = made.Name(".ckpt");
  PULSE_ASSIGN_OR_RETURN(const auto file, files_->Create(PathOf(*name)));
  CheckpointWriter writer(file.get());
  for (const NameKind kind : {NameKind::kLabel, NameKind::kType, NameKind::kKey}) {
    for (const auto& [token, text] : tables_.names.Durable(kind)) {
      writer.operations().Name(kind, token, text);
    }
  }
  // Before the nodes, which fill them.
  for (const IndexDefinition& index : indexes) writer.operations().CreateIndex(index);
  writer.operations().Counters(next_node_, next_edge_);
  std::vector<NodeId> nodes(64);
  uint64_t position = 0;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const size_t count, view.ScanNodes(kNoToken, &position, nodes));
    if (count == 0) break;
    for (const NodeId node : std::span(nodes).first(count)) {
      const NodeVersion* version = view.FindNode(node);
      writer.operations().CreateNode(node, version->labels(), version->properties());
      PULSE_RETURN_IF_ERROR(writer.FlushIfFull());
    }
  }
  if (load != nullptr) {
    for (const std::string& frame : load->frames) {
      PULSE_RETURN_IF_ERROR(writer.AppendFrame(frame));
    }
  }
  PULSE_RETURN_IF_ERROR(writer.Finish());
  checkpoint_size_ = writer.size();
  made.Keep();
  return absl::OkStatus();
}

absl::Status StoreImpl::FlushLocked(bool checkpoint, LoadedGraph* load) {
  std::shared_ptr<const Layers> before;
  std::shared_ptr<const View> view;
  Manifest manifest = manifest_;
  std::vector<IndexDefinition> indexes;
  {
    std::unique_lock lock(commit_mu_);
    WaitForQuiet(&lock);
    PULSE_RETURN_IF_ERROR(apply_failure_);
    before = layers_;
    if (!checkpoint && before->out.chunks.empty() && before->in.chunks.empty()) {
      return wal_ != nullptr ? wal_->failure() : absl::OkStatus();
    }
    // The nodes of what is flushed are in the log.
    if (wal_ != nullptr) PULSE_RETURN_IF_ERROR(wal_->Sync());
    // The layers that are flushed get no further record.
    if (!before->out.chunks.empty()) AddChunk(Side::kOut);
    if (!before->in.chunks.empty()) AddChunk(Side::kIn);
    PULSE_ASSIGN_OR_RETURN(view, Snapshot(applied_));
    if (checkpoint) {
      PULSE_ASSIGN_OR_RETURN(manifest.first_segment, wal_->Roll());
      for (const auto& index : tables_.indexes.list()) indexes.push_back(index->definition());
    }
    manifest.next_edge = next_edge_;
    manifest.edge_counts.clear();
    for (const auto& [type, name] : tables_.names.Durable(NameKind::kType)) {
      const auto* count = tables_.type_counts.Get(type);
      if (count != nullptr && *count != 0) manifest.edge_counts.emplace_back(type, *count);
    }
  }
  std::optional<Run> fresh[2];
  NewFiles made(this);
  for (const Side side : {Side::kOut, Side::kIn}) {
    auto& run = fresh[static_cast<size_t>(side)];
    PULSE_ASSIGN_OR_RETURN(run, WriteRun(side, before->side(side).chunks));
    if (run.has_value()) made.Add(run->file);
  }
  std::vector<std::string> obsolete;
  if (checkpoint) {
    if (!manifest_.checkpoint.empty()) obsolete.push_back(manifest_.checkpoint);
    PULSE_RETURN_IF_ERROR(WriteCheckpoint(*view, indexes, load, &manifest.checkpoint));
    made.Add(manifest.checkpoint);
    manifest.checkpoint_sequence = view->sequence();
  }
  uint64_t written = 0;
  auto next = std::make_shared<Layers>(*before);
  next->flushed = view->sequence();
  next->out.chunks.clear();
  next->in.chunks.clear();
  for (const Side side : {Side::kOut, Side::kIn}) {
    auto& run = fresh[static_cast<size_t>(side)];
    auto& runs = side == Side::kOut ? next->out.runs : next->in.runs;
    if (!run.has_value()) continue;
    written += run->reader->info().bytes;
    runs.insert(runs.begin(), *std::move(run));
  }
  if (load != nullptr) {
    PULSE_RETURN_IF_ERROR(AddLoaded(load, next.get(), &manifest));
    // From here on they go or stay with the others.
    for (const Side side : {Side::kOut, Side::kIn}) {
      auto& loaded = load->files[static_cast<size_t>(side)];
      if (!loaded.empty()) made.Add(std::exchange(loaded, std::string()));
    }
  }
  ListRuns(*next, &manifest);
  PULSE_RETURN_IF_ERROR(WriteManifest(manifest, &made));
  {
    std::unique_lock lock(commit_mu_);
    if (load != nullptr) WaitForQuiet(&lock);
    // What was appended meanwhile is in newer chunks.
    for (const Side side : {Side::kOut, Side::kIn}) {
      const auto& now = layers_->side(side).chunks;
      const size_t old = before->side(side).chunks.size();
      auto& chunks = side == Side::kOut ? next->out.chunks : next->in.chunks;
      chunks.assign(now.begin(), now.end() - static_cast<long>(old));
    }
    if (load != nullptr) {
      ShowLoaded(load, std::move(next));
    } else {
      InstallLayers(std::move(next));
    }
    if (checkpoint) {
      WaitForQuiet(&lock);
      // What stays is removed by the next opening: the manifest does not need it.
      if (const auto removed = wal_->RemoveBefore(manifest.first_segment); !removed.ok()) {
        Log(LogLevel::kWarn, Concat("graph: ", std::string(removed.message())));
      }
    }
  }
  before.reset();
  view.reset();
  if (checkpoint) {
    std::lock_guard lock(commit_mu_);
    checkpoint_from_ = 0;
  }
  RemoveFiles(obsolete);
  CutEdges();
  std::lock_guard lock(stats_mu_);
  ++stats_.flushes;
  if (checkpoint) {
    ++stats_.checkpoints;
    stats_.bytes_checkpointed += checkpoint_size_;
  }
  stats_.bytes_flushed += written;
  return absl::OkStatus();
}

void StoreImpl::WakeMaintenance() {
  {
    std::lock_guard lock(wake_mu_);
    wake_ = true;
  }
  wake_cv_.notify_one();
}

void StoreImpl::Maintain() {
  while (true) {
    {
      std::unique_lock lock(wake_mu_);
      wake_cv_.wait(lock, [this] { return wake_ || stop_; });
      if (stop_) return;
      wake_ = false;
    }
    std::lock_guard lock(maintenance_mu_);
    absl::Status status;
    bool wants;
    bool checkpoint;
    {
      std::lock_guard commits(commit_mu_);
      wants = WantsFlush();
      checkpoint = WantsCheckpoint();
    }
    if (wants) status = FlushLocked(checkpoint);
    if (!status.ok() && checkpoint) {
      // The next rounds flush without one, which needs less space.
      std::lock_guard commits(commit_mu_);
      checkpoint_from_ = wal_->bytes() + wal_->bytes() / 8;
    }
    if (status.ok()) status = CompactLocked(false);
    {
      std::lock_guard stats(stats_mu_);
      stats_.maintenance = status;
    }
    // Whoever waits has looked under this lock.
    std::lock_guard commits(commit_mu_);
    ++maintenance_rounds_;
    memory_cv_.notify_all();
  }
}

absl::Status StoreImpl::Flush() {
  if (options_.read_only) return absl::FailedPreconditionError("open for reading only");
  std::lock_guard lock(maintenance_mu_);
  return FlushLocked(false);
}

absl::Status StoreImpl::Checkpoint() {
  if (options_.read_only) return absl::FailedPreconditionError("open for reading only");
  std::lock_guard lock(maintenance_mu_);
  return FlushLocked(true);
}

absl::Status StoreImpl::Compact() {
  if (options_.read_only) return absl::FailedPreconditionError("open for reading only");
  std::lock_guard lock(maintenance_mu_);
  PULSE_RETURN_IF_ERROR(FlushLocked(false));
  return CompactLocked(true);
}

absl::Status StoreImpl::Close() {
  if (options_.read_only) return absl::OkStatus();
  {
    std::lock_guard lock(commit_mu_);
    if (closed_) return absl::OkStatus();
    closed_ = true;
  }
  memory_cv_.notify_all();
  std::lock_guard lock(maintenance_mu_);
  const absl::Status status = FlushLocked(true);
  if (status.ok()) return status;
  {
    std::lock_guard commits(commit_mu_);
    if (!apply_failure_.ok()) return apply_failure_;
    if (!wal_->failure().ok()) return wal_->failure();
  }
  absl::Status failed(
      status.code(),
      Concat("the checkpoint at close failed: ", std::string(status.message()),
             "; all commits are in the log, which whoever opens the database next reads"));
  failed.SetPayload(kCommitsAreDurable, absl::Cord());
  return failed;
}

StoreStats StoreImpl::stats() const {
  StoreStats out;
  {
    std::lock_guard lock(stats_mu_);
    out = stats_;
  }
  out.log_bytes = wal_->bytes();
  out.bytes_logged = wal_->written();
  std::lock_guard lock(view_mu_);
  out.relationships = static_cast<uint64_t>(std::max<int64_t>(0, tables_.edge_count));
  out.sequence = visible_;
  out.oldest_snapshot = oldest_;
  out.node_bytes = NodeMemory();
  out.edge_bytes = tables_.edges.memory();
  out.chunk_bytes = (layers_->out.chunks.size() + layers_->in.chunks.size()) * L0Chunk::memory();
  out.out_runs = layers_->out.runs.size();
  out.in_runs = layers_->in.runs.size();
  for (const Side side : {Side::kOut, Side::kIn}) {
    for (const Run& run : layers_->side(side).runs) {
      out.run_bytes += run.reader->info().bytes;
      out.run_records += run.reader->info().records;
    }
  }
  return out;
}

}  // namespace pulse::graph
