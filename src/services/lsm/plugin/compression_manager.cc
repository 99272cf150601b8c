#include "services/lsm/plugin/compression_manager.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/log.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/placement/compression_threads.h"

#if PULSE_ROCKSDB_AT_LEAST(11, 8)
#include "rocksdb/advanced_compression.h"
#include "rocksdb/filter_policy.h"
#endif

namespace pulse::lsm {
namespace {

bool Compresses(rocksdb::CompressionType type) {
  return type != rocksdb::kNoCompression && type != rocksdb::kDisableCompressionOption;
}

#if PULSE_ROCKSDB_AT_LEAST(11, 8)

using rocksdb::CompressionOptions;
using rocksdb::CompressionType;
using rocksdb::Compressor;

// For each table, unless its options say how many: beyond eight RocksDB has 32 places for blocks,
// so that neither side waits for the other.
constexpr uint32_t kThreads = 9;

class AgentCompressor : public rocksdb::CompressorWrapper {
 public:
  // `threads` outlives all tables. `merger` makes the table.
  AgentCompressor(std::unique_ptr<Compressor> wrapped, CompressionThreads* threads, pid_t merger)
      : CompressorWrapper(std::move(wrapped)), threads_(threads), merger_(merger) {}

  const char* Name() const override { return wrapped_->Name(); }
  std::string GetId() const override { return wrapped_->GetId(); }
  std::unique_ptr<Compressor> Clone() const override {
    return std::make_unique<AgentCompressor>(wrapped_->Clone(), threads_, merger_);
  }
  std::unique_ptr<Compressor> MaybeCloneSpecialized(rocksdb::CacheEntryRole block_type,
                                                    DictConfigArgs&& dictionary) const override {
    auto clone = wrapped_->MaybeCloneSpecialized(block_type, std::move(dictionary));
    if (clone == nullptr) return nullptr;
    return std::make_unique<AgentCompressor>(std::move(clone), threads_, merger_);
  }

  rocksdb::Status CompressBlock(Slice block, char* out, size_t* out_size, CompressionType* type,
                                ManagedWorkingArea* area) override {
    const bool by_worker = gettid() != merger_;
    if (by_worker) threads_->Adopt();
    const rocksdb::Status s = wrapped_->CompressBlock(block, out, out_size, type, area);
    if (by_worker) CompressionThreads::CountMine();
    return s;
  }

 private:
  CompressionThreads* const threads_;
  const pid_t merger_;
};

void LogSampledDictionaryOnce() {
  static std::atomic<bool> logged{false};
  if (logged.exchange(true)) return;
  Log(LogLevel::kWarn,
      "tables whose compression samples a dictionary (max_dict_bytes of compression_opts) are "
      "compressed on the host's "
      "CPUs, in spite of compression=agent: this RocksDB starts no threads for them; without a "
      "dictionary it does");
}

class AgentCompressionManager : public rocksdb::CompressionManagerWrapper {
 public:
  explicit AgentCompressionManager(std::shared_ptr<rocksdb::CompressionManager> wrapped)
      : CompressionManagerWrapper(std::move(wrapped)) {}

  // By which RocksDB finds the wrapped one, or one that reads its tables, in an OPTIONS file.
  const char* Name() const override { return wrapped_->CompatibilityName(); }

  bool IsInstanceOf(const std::string& name) const override {
    return name == kClass || CompressionManagerWrapper::IsInstanceOf(name);
  }
  static constexpr char kClass[] = "PulseAgentCompressionManager";

  std::unique_ptr<Compressor> GetCompressorForSST(const rocksdb::FilterBuildingContext& context,
                                                  const CompressionOptions& options,
                                                  CompressionType preferred) override {
    // Of an output that is the agent's to write, on the thread that merges.
    CompressionThreads* const threads = CompressionThreads::TakeMine();
    if (threads == nullptr) return wrapped_->GetCompressorForSST(context, options, preferred);
    CompressionOptions parallel = options;
    if (parallel.parallel_threads <= 1) parallel.parallel_threads = kThreads;
    auto wrapped = wrapped_->GetCompressorForSST(context, parallel, preferred);
    // RocksDB leaves the fastest ones, to which handing on a block costs more than it saves, to the
    // thread that merges.
    if (wrapped == nullptr || wrapped->GetRecommendedParallelThreads() == 1) return wrapped;
    // It starts threads before the first block or never, and here there is nothing to compress with
    // by then.
    if (std::holds_alternative<Compressor::DictSampling>(
            wrapped->GetDictGuidance(rocksdb::CacheEntryRole::kDataBlock))) {
      LogSampledDictionaryOnce();
      return wrapped;
    }
    return std::make_unique<AgentCompressor>(std::move(wrapped), threads, gettid());
  }
};

bool IsOurs(const std::shared_ptr<rocksdb::CompressionManager>& manager) {
  return manager != nullptr && manager->IsInstanceOf(AgentCompressionManager::kClass);
}

#endif

}  // namespace

bool CompressesAlone(const rocksdb::ColumnFamilyOptions& o) {
#if PULSE_ROCKSDB_AT_LEAST(11, 8)
  if (IsOurs(o.compression_manager)) return false;
#endif
  const auto& levels = o.compression_per_level;
  const bool any = levels.empty() ? Compresses(o.compression)
                                  : std::any_of(levels.begin(), levels.end(), Compresses);
  return (any && o.compression_opts.parallel_threads <= 1) ||
         (Compresses(o.bottommost_compression) && o.bottommost_compression_opts.enabled &&
          o.bottommost_compression_opts.parallel_threads <= 1);
}

void CompressInParallel(int agent_cpus, rocksdb::ColumnFamilyOptions* o) {
#if PULSE_ROCKSDB_AT_LEAST(11, 8)
  if (IsOurs(o->compression_manager)) return;
  o->compression_manager = std::make_shared<AgentCompressionManager>(
      o->compression_manager != nullptr ? o->compression_manager
                                        : rocksdb::GetBuiltinV2CompressionManager());
#else
  // RocksDB starts the threads for tables without compression as well.
  if (!CompressesAlone(*o)) return;
  // So many that one has a block while another waits for the next.
  const auto threads = static_cast<uint32_t>(agent_cpus + 1);
  for (rocksdb::CompressionOptions* c : {&o->compression_opts, &o->bottommost_compression_opts}) {
    if (c->parallel_threads <= 1) c->parallel_threads = threads;
  }
#endif
}

}  // namespace pulse::lsm
