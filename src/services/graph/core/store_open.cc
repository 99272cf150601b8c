// Opening: manifest, checkpoint, runs, and the log from where the checkpoint ends.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/crc32c.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "services/graph/core/beside_writer.h"
#include "services/graph/core/checkpoint.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/core/store_new_files.h"
#include "services/graph/model/text.h"

namespace pulse::graph {

using cypher::Concat;

namespace {

// While a log is read, runs are merged when there are so many times what one merge takes.
constexpr size_t kRunsAtOpening = 12;

// Less than this is never worth a flush: two chunks, the newest of each direction, are there after
// one, too.
uint64_t LeastFlushed() { return 3 * L0Chunk::memory(); }

// Flushes begin at half of the limit.
StoreOptions WithLeastMemory(StoreOptions options) {
  options.memory_limit = std::max(options.memory_limit, 2 * LeastFlushed());
  return options;
}

}  // namespace

StoreImpl::StoreImpl(std::string path, const StoreOptions& options)
    : path_(std::move(path)),
      options_(WithLeastMemory(options)),
      files_(options.files != nullptr ? options.files : SystemFiles()),
      engines_(options.engines != nullptr ? options.engines : InlineEngines()),
      layers_(std::make_shared<Layers>()) {}

StoreImpl::~StoreImpl() {
  {
    std::lock_guard lock(wake_mu_);
    stop_ = true;
  }
  wake_cv_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// OK: a new database can be made there. A directory that has a log or runs and no manifest has lost
// it; one of others' files is not ours.
absl::Status StoreImpl::CheckIsFree() const {
  if (options_.read_only || !options_.create) {
    return absl::NotFoundError(Concat("there is no graph database in ", path_));
  }
  const auto names = files_->List(path_);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (name == kLockFile || name == Concat(kManifestFile, ".new")) continue;
    // Empty: of an opening that came no further.
    if (name == kCommittedFile && files_->Size(PathOf(name)).value_or(1) == 0) continue;
    return absl::InvalidArgumentError(
        Concat(path_, " is not empty and holds no graph database (", name, ")",
               IsFileOfDatabase(name) || name == kCommittedFile
                   ? "; if it lost its MANIFEST, `pulse graph salvage` makes a new database of it"
                   : ""));
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::LoadManifest() {
  auto bytes = files_->Read(PathOf(kManifestFile));
  if (bytes.ok()) {
    PULSE_ASSIGN_OR_RETURN(manifest_, Manifest::Decode(*bytes, PathOf(kManifestFile)));
    format_ = manifest_.format;
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(bytes.status())) return bytes.status();
  PULSE_RETURN_IF_ERROR(CheckIsFree());
  NewFiles none(this);
  return WriteManifest(Manifest(), &none);
}

absl::Status StoreImpl::LoadCheckpoint() {
  if (manifest_.checkpoint.empty()) return absl::OkStatus();
  const std::string path = PathOf(manifest_.checkpoint);
  PULSE_ASSIGN_OR_RETURN(const std::string bytes, files_->Read(path));
  checkpoint_size_ = bytes.size();
  return ReadCheckpoint(bytes, path, [this](std::string_view payload) {
    return Apply(manifest_.checkpoint_sequence, payload);
  });
}

absl::StatusOr<Run> StoreImpl::OpenRun(const ManifestRun& run) const {
  PULSE_ASSIGN_OR_RETURN(RunBytes bytes, files_->Map(PathOf(run.file)));
  if (options_.page_reads) bytes = ForLookups(std::move(bytes));
  PULSE_ASSIGN_OR_RETURN(auto reader, RunReader::Open(std::move(bytes)));
  if (reader->info().side != run.side) {
    return absl::DataLossError(Concat(PathOf(run.file), " is a run of the other direction"));
  }
  return Run{std::move(reader), run.file, run.level};
}

absl::Status StoreImpl::OpenRuns() {
  auto layers = std::make_shared<Layers>();
  layers->flushed = manifest_.flushed;
  for (const ManifestRun& run : manifest_.runs) {
    auto& runs = run.side == Side::kOut ? layers->out.runs : layers->in.runs;
    PULSE_ASSIGN_OR_RETURN(Run opened, OpenRun(run));
    runs.push_back(std::move(opened));
  }
  for (const auto& [type, count] : manifest_.edge_counts) {
    if (type >= Tables::kMaxTokens) return absl::DataLossError("the manifest is damaged");
    *tables_.type_counts.Make(type) += count;
    tables_.edge_count += count;
  }
  next_edge_ = manifest_.next_edge;
  next_file_ = manifest_.next_file;
  InstallLayers(std::move(layers));
  return absl::OkStatus();
}

// Files of a flush, checkpoint or compaction that did not come to its end.
absl::Status StoreImpl::RemoveStrays() {
  PULSE_ASSIGN_OR_RETURN(const auto names, files_->List(path_));
  for (const std::string& name : names) {
    if (!name.ends_with(".run") && !name.ends_with(".ckpt") && !name.ends_with(".new")) continue;
    const bool known = name == manifest_.checkpoint ||
                       std::any_of(manifest_.runs.begin(), manifest_.runs.end(),
                                   [&name](const ManifestRun& run) { return run.file == name; });
    if (!known) PULSE_RETURN_IF_ERROR(files_->Remove(PathOf(name)));
  }
  return absl::OkStatus();
}

// While a flush writes a run, it has about as much again in memory as it flushes. Nobody waits for
// memory here, so that what is flushed at once has to be small.
bool StoreImpl::WantsFlushWhileReading() const {
  if (options_.flush_chunks == 0 || !options_.background) return false;
  return WantsFlush() || MemoryUsed() > std::max(options_.memory_limit / 5, LeastFlushed());
}

absl::Status StoreImpl::ReadLog() {
  WalOptions wal;
  wal.segment_bytes = options_.log_segment_bytes;
  wal.sync = options_.sync;
  wal.read_only = options_.read_only;
  wal.keep_bytes = options_.keep_log_bytes;
  wal.allow_damage = options_.allow_damage;
  applied_ = std::max(manifest_.checkpoint_sequence, manifest_.flushed);
  const auto apply = [this](uint64_t sequence, std::string_view payload) -> absl::Status {
    PULSE_RETURN_IF_ERROR(Apply(sequence, payload));
    applied_ = std::max(applied_, sequence);
    history_from_ = applied_;  // nobody has an older snapshot
    Publish(applied_);
    PruneNodes();
    // A long log must not take more memory than it took when it was written.
    if (options_.read_only || !WantsFlushWhileReading()) return absl::OkStatus();
    std::lock_guard lock(maintenance_mu_);
    PULSE_RETURN_IF_ERROR(FlushLocked(false));
    // The opening does not wait for merges, as long as the runs do not become too many.
    const size_t runs = std::max(layers_->out.runs.size(), layers_->in.runs.size());
    return runs < kRunsAtOpening * options_.level_runs ? absl::OkStatus() : CompactLocked(false);
  };
  PULSE_ASSIGN_OR_RETURN(wal_, Wal::Open(files_, path_, manifest_.first_segment, wal, apply));
  stats_.damage = wal_->damage();
  last_sequence_ = std::max(applied_, wal_->last_sequence());
  applied_ = last_sequence_;
  history_from_ = applied_;
  Publish(applied_);
  return absl::OkStatus();
}

absl::Status StoreImpl::Open() {
  if (options_.read_only) return OpenFiles();
  const auto has_manifest = [this] {
    return !absl::IsNotFound(files_->Size(PathOf(kManifestFile)).status());
  };
  // Before anything is made. Another process may make the database meanwhile, its manifest first.
  const absl::Status free = has_manifest() ? absl::OkStatus() : CheckIsFree();
  if (!free.ok() && !has_manifest()) return free;
  const bool makes_directory = absl::IsNotFound(files_->Size(path_).status());
  if (options_.create) PULSE_RETURN_IF_ERROR(files_->MakeDirectory(path_));
  auto lock = files_->Lock(PathOf(kLockFile));
  if (lock.ok()) lock_ = *lock;
  const bool is_new = lock_ != nullptr && !has_manifest() && CheckIsFree().ok();
  const absl::Status opened = lock_ != nullptr ? OpenFiles() : lock.status();
  if (opened.ok()) return opened;
  // What was made of a new one goes; the manifest late, as without the others it is one, too.
  const std::string made[] = {WalName(1), kCommittedFile, Concat(kManifestFile, ".new"),
                              kManifestFile, kLockFile};
  for (size_t i = 0; is_new && i < std::size(made); ++i) {
    // Without its second lock, it is another's.
    if (committed_ == nullptr && made[i] != kLockFile) continue;
    const absl::Status removed = files_->Remove(PathOf(made[i]));
    if (!removed.ok() && !absl::IsNotFound(removed)) return opened;
  }
  if (makes_directory) files_->Remove(path_).IgnoreError();  // unless others have files there
  return opened;
}

absl::Status StoreImpl::OpenFiles() {
  if (!options_.read_only) {
    PULSE_ASSIGN_OR_RETURN(committed_, CommittedWriter::Open(files_, path_));
  }
  // Before the log is read, which a process that writes makes longer meanwhile.
  const auto before = ReadCommitted(files_, path_);
  PULSE_RETURN_IF_ERROR(LoadManifest());
  if (!options_.read_only) PULSE_RETURN_IF_ERROR(RemoveStrays());
  PULSE_RETURN_IF_ERROR(OpenRuns());
  PULSE_RETURN_IF_ERROR(LoadCheckpoint());
  PULSE_RETURN_IF_ERROR(ReadLog());
  if (before.ok() && before->has_value() && stats_.damage.empty()) {
    // What is lost is lost: new commits take the place of those.
    // A flush has relationships alone: nodes and names of its commits are in the log.
    const uint64_t newest = std::max(manifest_.checkpoint_sequence, wal_->last_sequence());
    stats_.damage = std::string(CheckSyncedIsThere(**before, newest, path_).message());
    if (!options_.read_only && !stats_.damage.empty()) {
      Log(LogLevel::kWarn, Concat("graph: ", stats_.damage));
    }
  }
  if (!options_.read_only) {
    {
      // Before what an older program cannot read may come into any file; and a backup may have a
      // newer log than manifest.
      std::lock_guard lock(maintenance_mu_);
      PULSE_RETURN_IF_ERROR(
          RaiseFormat(tables_.indexes.AnyExtended() ? kStoreFormat : kPlainFormat));
    }
    // What was read is durable now: opening the log synced it.
    synced_ = applied_;
    WriteCommitted(applied_);
  }
  if (options_.background && !options_.read_only) {
    PULSE_RETURN_IF_ERROR(StartThread(
        "a graph", [this] { Maintain(); }, &thread_));
    // There may be runs to merge.
    WakeMaintenance();
  }
  return absl::OkStatus();
}

// --- Snapshots ---

uint64_t StoreImpl::RetainedFrom() const {
  const uint64_t retained =
      visible_ > options_.retain_commits ? visible_ - options_.retain_commits : 0;
  return std::max(history_from_, retained);
}

void StoreImpl::UpdateOldest() {
  uint64_t oldest = RetainedFrom();
  if (!snapshots_.empty()) oldest = std::min(oldest, *snapshots_.begin());
  oldest_.store(oldest, std::memory_order_release);
}

absl::StatusOr<std::shared_ptr<const View>> StoreImpl::Snapshot(std::optional<uint64_t> asked) {
  std::lock_guard lock(view_mu_);
  const uint64_t sequence = asked.value_or(visible_);
  if (sequence > visible_) {
    return absl::NotFoundError(
        Concat("there is no commit ", sequence, " yet; the newest is ", visible_));
  }
  // A snapshot that somebody has is kept as long as that.
  if (sequence < history_from_ ||
      sequence < std::min(RetainedFrom(), oldest_.load(std::memory_order_relaxed))) {
    return absl::NotFoundError(Concat("the state of commit ", sequence,
                                      " is no longer kept; the oldest is ", RetainedFrom(),
                                      " (the option `retain` keeps more)"));
  }
  snapshots_.insert(sequence);
  return std::make_shared<const View>(&tables_, layers_, sequence, [this, sequence] {
    std::lock_guard release(view_mu_);
    snapshots_.erase(snapshots_.find(sequence));
    UpdateOldest();
  });
}

uint64_t StoreImpl::sequence() const {
  std::lock_guard lock(view_mu_);
  return visible_;
}

absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> StoreImpl::Begin() {
  if (options_.read_only) {
    return absl::FailedPreconditionError("the database is open for reading only");
  }
  PULSE_ASSIGN_OR_RETURN(auto view, Snapshot(std::nullopt));
  return std::make_unique<Transaction>(this, std::move(view));
}

// --- The public face ---

// Files are opened by name as long as the database is open, whatever the program's directory is by
// then: of another one they would be another database's.
static absl::StatusOr<std::string> AbsolutePath(const std::string& path,
                                                const StoreOptions& options) {
  if (options.files != nullptr && options.files != SystemFiles()) return path;
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error).string();
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  if (error) return ErrnoError(error.value(), "finding the current directory for", path);
  return absolute;
}

absl::StatusOr<std::unique_ptr<GraphStore>> GraphStore::Open(const std::string& given,
                                                             const StoreOptions& options) {
  if (given.empty()) return absl::InvalidArgumentError("the database's path is empty");
  if (options.allow_damage && !options.read_only) {
    return absl::InvalidArgumentError("a damaged database is opened for reading only");
  }
  if (options.follow && !options.read_only) {
    return absl::InvalidArgumentError(
        "a database that follows another process is for reading only");
  }
  if (options.level_runs < 2) return absl::InvalidArgumentError("level_runs is 2 or more");
  PULSE_ASSIGN_OR_RETURN(const std::string path, AbsolutePath(given, options));
  PULSE_ASSIGN_OR_RETURN(auto impl, OpenImpl(path, options));
  return std::unique_ptr<GraphStore>(new GraphStore(path, options, std::move(impl)));
}

absl::StatusOr<std::shared_ptr<StoreImpl>> GraphStore::OpenImpl(const std::string& path,
                                                                const StoreOptions& options) {
  std::shared_ptr<StoreImpl> impl;
  const auto open = [&] {
    impl = std::make_shared<StoreImpl>(path, options);
    return impl->Open();
  };
  Files* const files = options.files != nullptr ? options.files : SystemFiles();
  PULSE_RETURN_IF_ERROR(options.read_only ? ReadBesideWriter(files, path, open) : open());
  return impl;
}

GraphStore::GraphStore(std::string path, const StoreOptions& options,
                       std::shared_ptr<StoreImpl> impl)
    : path_(std::move(path)), options_(options), impl_(std::move(impl)) {}
GraphStore::~GraphStore() = default;

uint64_t GraphStore::sequence() const { return impl()->sequence(); }
uint64_t GraphStore::NodeCount() {
  const int64_t count = impl()->tables().node_count.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(std::max<int64_t>(count, 0));
}
absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> GraphStore::Begin() {
  return impl()->Begin();
}
absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> GraphStore::BeginSerializable() {
  return impl()->BeginSerializable();
}
absl::Status GraphStore::ChangeSchema(std::span<const cypher::SchemaChange> changes) {
  return impl()->ChangeSchema(changes);
}
std::vector<cypher::IndexDefinition> GraphStore::Indexes() const {
  std::vector<cypher::IndexDefinition> out;
  const auto impl = this->impl();
  for (const auto& index : impl->tables().indexes.list()) out.push_back(index->definition());
  return out;
}
cypher::DatabaseNames GraphStore::Names() const {
  cypher::DatabaseNames out;
  const auto impl = this->impl();
  const NameTable& names = impl->tables().names;
  for (auto& [token, name] : names.Durable(NameKind::kLabel)) out.labels.push_back(name);
  for (auto& [token, name] : names.Durable(NameKind::kType)) out.types.push_back(name);
  for (auto& [token, name] : names.Durable(NameKind::kKey)) out.keys.push_back(name);
  return out;
}
std::vector<cypher::EngineCopies> GraphStore::Copies() const { return impl()->Copies(); }
absl::Status GraphStore::Flush() { return impl()->Flush(); }
absl::Status GraphStore::Checkpoint() { return impl()->Checkpoint(); }
absl::Status GraphStore::Compact() { return impl()->Compact(); }
absl::Status GraphStore::Close() { return impl()->Close(); }
StoreStats GraphStore::stats() const {
  StoreStats stats = impl()->stats();
  stats.reopened = reopened_;
  return stats;
}

}  // namespace pulse::graph
