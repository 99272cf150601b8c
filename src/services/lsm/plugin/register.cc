// Registration of pulse:// with RocksDB, in the three ways of include/pulse/rocksdb.h.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/maker_process.h"
#include "pulse/rocksdb.h"
#include "rocksdb/listener.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/version.h"
#include "services/lsm/core/host_session.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/plugin/compression_manager.h"
#include "services/lsm/plugin/job_listener.h"
#include "services/lsm/plugin/placer_hooks.h"
#include "services/lsm/plugin/pulse_file_system.h"
#include "services/lsm/plugin/statistics.h"

namespace pulse {
namespace {

// RocksDB inserts virtual functions and grows structures between minor versions: an object built
// for one would misread another. The library in use says what it is.
absl::Status CheckVersion() {
  const std::string running = rocksdb::GetRocksVersionAsString(/*with_patch=*/false);
  const std::string built = absl::StrCat(ROCKSDB_MAJOR, ".", ROCKSDB_MINOR);
  if (running == built) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "libpulse_rocksdb was built for RocksDB ", built, " and the program runs version ", running,
      "; build PulseDB against that version (cmake -DROCKSDB_ROOT=PREFIX)"));
}

rocksdb::FileSystem* Make(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard,
                          std::string* error) {
  absl::Status st = CheckVersion();
  if (st.ok()) {
    auto fs = lsm::PulseFileSystem::Open(uri, rocksdb::FileSystem::Default());
    if (fs.ok()) {
      *guard = *std::move(fs);
      return guard->get();
    }
    st = fs.status();
  }
  *error = std::string(st.message());
  return nullptr;
}

void AddFactories(rocksdb::ObjectLibrary& library) {
  library.AddFactory<rocksdb::FileSystem>(
      rocksdb::ObjectLibrary::PatternEntry("pulse", false).AddSeparator("://", false),
      [](const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* guard, std::string* error) {
        return Make(uri, guard, error);
      });
  library.AddFactory<rocksdb::EventListener>(
      lsm::kJobListenerName,
      [](const std::string&, std::unique_ptr<rocksdb::EventListener>* guard, std::string* error) {
        if (const absl::Status st = CheckVersion(); !st.ok()) {
          *error = std::string(st.message());
          return static_cast<rocksdb::EventListener*>(nullptr);
        }
        *guard = lsm::MakeJobListener({});
        return guard->get();
      });
}

// Tells the agent of write stalls as they begin and end. Without it the host knows of stalls from
// the priority of outputs only: later, without their end, and not whether writers are delayed or
// stopped. Thread-safe; does not block, beyond a mutex that is held briefly.
class StallListener : public rocksdb::EventListener {
 public:
  explicit StallListener(std::shared_ptr<lsm::HostSession> session)
      : session_(std::move(session)) {}

  ~StallListener() override {
    if (!maker_.IsThis()) return;
    for (uint32_t level = 0; level < families_.size(); ++level) {
      session_->AddStalls(level, -families_[level]);
    }
  }

  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    std::lock_guard lock(mu_);
    // Of all column families of all databases that share the listener. RocksDB may tell of two
    // changes in the wrong order: a count may be below zero for a moment.
    --families_[LevelOf(info.condition.prev)];
    ++families_[LevelOf(info.condition.cur)];
    session_->AddStalls(LevelOf(info.condition.prev), -1);
    session_->AddStalls(LevelOf(info.condition.cur), 1);
  }

 private:
  static uint32_t LevelOf(rocksdb::WriteStallCondition condition) {
    switch (condition) {
      case rocksdb::WriteStallCondition::kDelayed:
        return wire::kPressureDelayed;
      case rocksdb::WriteStallCondition::kStopped:
        return wire::kPressureStopped;
      default:
        return wire::kPressureNone;
    }
  }

  const MakerProcess maker_;
  const std::shared_ptr<lsm::HostSession> session_;
  std::mutex mu_;
  std::array<int64_t, 3> families_{};
};

const lsm::PulseFileSystem* Find(const rocksdb::FileSystem* fs) {
  return fs == nullptr ? nullptr : fs->CheckedCast<lsm::PulseFileSystem>();
}

}  // namespace

rocksdb::Status RegisterRocksDb() {
  absl::Status st = CheckVersion();
  // The factory exists even for another version: it returns the error to those who ask for
  // pulse://.
  static const bool once = [] {
    AddFactories(*rocksdb::ObjectLibrary::Default());
    return true;
  }();
  (void)once;
  return lsm::ToStatus(st);
}

rocksdb::Status NewFileSystem(const std::string& uri, std::shared_ptr<rocksdb::FileSystem> base,
                              std::shared_ptr<rocksdb::FileSystem>* out) {
  if (absl::Status st = CheckVersion(); !st.ok()) return lsm::ToStatus(st);
  if (base == nullptr) base = rocksdb::FileSystem::Default();
  auto fs = lsm::PulseFileSystem::Open(uri, std::move(base));
  if (!fs.ok()) return lsm::ToStatus(fs.status());
  *out = *std::move(fs);
  return rocksdb::Status::OK();
}

rocksdb::Status PlaceCompactions(rocksdb::DBOptions* options,
                                 const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  if (absl::Status st = CheckVersion(); !st.ok()) return lsm::ToStatus(st);
  const std::shared_ptr<rocksdb::FileSystem> fs =
      options->env == nullptr ? nullptr : options->env->GetFileSystem();
  const lsm::PulseFileSystem* pulse = Find(fs.get());
  if (pulse == nullptr) {
    return rocksdb::Status::InvalidArgument(
        "PlaceCompactions: options.env is not an Env of pulse://; make one with Env::CreateFromUri "
        "or NewFileSystem, and set it first");
  }
  if (options->compaction_service != nullptr) {
    return rocksdb::Status::InvalidArgument(
        "PlaceCompactions: options.compaction_service is set already, to " +
        std::string(options->compaction_service->Name()) + "; it can be only one");
  }
  if (lsm::HasPlacer(*options)) {
    return rocksdb::Status::InvalidArgument("PlaceCompactions: it was called for these options");
  }
  auto* const context = &const_cast<lsm::PulseFileSystem*>(pulse)->context();
  context->placed = true;
  const lsm::Options& o = context->session->options();
  for (const rocksdb::ColumnFamilyDescriptor& f : families) {
    if (!o.agent_compresses) continue;
    context->compresses = true;  // or told of by name
    if (!lsm::CompressesAlone(f.options)) continue;
    LogOnce("compresses alone " + f.name,
            absl::StrCat("compression=agent does nothing for column family \"", f.name,
                         "\": have pulse::CompressOnAgent prepare its options, or set "
                         "parallel_threads of its compression_opts to 2 or more"));
  }
  // Without a decision to make, RocksDB need not ask for each compaction.
  const bool compactions =
      o.placement != lsm::PlacementMode::kHost && o.placement != lsm::PlacementMode::kOffloadIo;
  if (!compactions && o.flushes == lsm::FlushMode::kHost) return rocksdb::Status::OK();
  auto placer = std::make_shared<lsm::CompactionPlacer>(fs, context, *options, families);
  const std::shared_ptr<rocksdb::EventListener> listener = lsm::NewPlacerListener(placer);
  if (compactions) options->compaction_service = lsm::NewPlacerService(placer, listener);
  options->listeners.push_back(listener);
  return rocksdb::Status::OK();
}

rocksdb::Status PlaceCompactions(rocksdb::Options* options) {
  const std::shared_ptr<rocksdb::FileSystem> fs =
      options->env == nullptr ? nullptr : options->env->GetFileSystem();
  CompressOnAgent(fs.get(), options);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, *options}};
  return PlaceCompactions(options, families);
}

void CompressOnAgent(const rocksdb::FileSystem* fs, rocksdb::ColumnFamilyOptions* options) {
  const lsm::PulseFileSystem* pulse = Find(fs);
  if (pulse == nullptr || !CheckVersion().ok()) return;
  const lsm::Options& o = pulse->context().session->options();
  if (!o.agent_compresses) return;
  const_cast<lsm::PulseFileSystem*>(pulse)->context().compresses = true;
  lsm::CompressInParallel(o.agent_cores(), options);
}

void CancelWholeCompactions(const rocksdb::DBOptions& options) {
  lsm::CompactionPlacer* placer = lsm::PlacerOf(options.compaction_service.get());
  if (placer != nullptr) placer->Cancel(/*for_good=*/false);
}

std::shared_ptr<rocksdb::EventListener> NewStallListener(const rocksdb::FileSystem* fs) {
  const lsm::PulseFileSystem* pulse = Find(fs);
  if (pulse == nullptr) return nullptr;
  return std::make_shared<StallListener>(pulse->context().session);
}

bool GetStats(const rocksdb::FileSystem* fs, Stats* out) {
  const lsm::PulseFileSystem* pulse = Find(fs);
  if (pulse == nullptr) return false;
  Stats now;
  const lsm::AtomicCounters& c = pulse->context().session->counters();
  now.files_persisted = c.files_persisted;
  now.bytes_persisted = c.bytes_persisted;
  now.backpressure_waits = c.backpressure_waits;
  now.backpressure_nanos = c.backpressure_nanos;
  now.barrier_waits = c.barrier_waits;
  now.barrier_nanos = c.barrier_nanos;
  now.bytes_fetched = c.bytes_fetched;
  now.fetch_waits = c.fetch_waits;
  now.fetch_wait_nanos = c.fetch_wait_nanos;
  now.fetch_misses = c.fetch_misses;
  now.failovers = c.failovers;
  now.bytes_inline = c.bytes_inline;
  now.reconnects = c.reconnects;
  now.whole_compactions = c.whole_compactions;
  now.whole_returned = c.whole_returned;
  now.agent_flushes = c.agent_flushes;
  now.agent_flush_nanos = c.agent_flush_nanos;
  now.agent_compaction_nanos = c.agent_compaction_nanos;
  if (pulse->context().compression != nullptr) pulse->context().compression->SampleNow();
  now.agent_compression_nanos = c.agent_compression_nanos;
  now.agentless_nanos = pulse->context().session->agentless_nanos();
  {
    lsm::HostSession& session = *pulse->context().session;
    std::lock_guard lock(session.mu());
    now.syncs = session.sync_times_locked().count();
    now.sync_nanos = session.sync_times_locked().nanos();
    now.sync_median_nanos = static_cast<uint64_t>(session.sync_times_locked().Median());
  }
  const lsm::HostSession::Occupancy queues = pulse->context().session->occupancy();
  now.streams = queues.streams;
  now.queued_bytes = queues.bytes;
  now.queued_requests = queues.requests;
  // A caller of an earlier release knows fewer members; one of a later release finds zeros in those
  // that are unknown here.
  const uint64_t known = std::min<uint64_t>(out->struct_size, sizeof(now));
  now.struct_size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &now, known);
  return true;
}

bool GetTickerMap(const rocksdb::FileSystem* fs, std::map<std::string, uint64_t>* out) {
  Stats stats{};
  if (!GetStats(fs, &stats)) return false;
  *out = lsm::TickersOf(stats);
  return true;
}

rocksdb::Status NewStatistics(std::shared_ptr<rocksdb::FileSystem> fs,
                              std::shared_ptr<rocksdb::Statistics> base,
                              std::shared_ptr<rocksdb::Statistics>* out) {
  if (Find(fs.get()) == nullptr) {
    return rocksdb::Status::InvalidArgument(
        "pulse::NewStatistics needs a file system of pulse://, or one on top of it");
  }
  if (base == nullptr) base = rocksdb::CreateDBStatistics();
  *out = lsm::NewStatistics(std::move(fs), std::move(base));
  return rocksdb::Status::OK();
}

std::shared_ptr<rocksdb::EventListener> NewWaitListener(JobCallback callback) {
  return lsm::MakeJobListener(std::move(callback));
}

}  // namespace pulse

// Named by plugin/pulse/pulse.mk for in-tree builds, where RocksDB calls it.
extern "C" __attribute__((visibility("default"))) int pulse_RegisterPlugin(
    rocksdb::ObjectLibrary& library, const std::string&) {
  pulse::AddFactories(library);
  return 1;
}
