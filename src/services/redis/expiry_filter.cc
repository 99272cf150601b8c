#include "services/redis/expiry_filter.h"

#include "absl/strings/str_cat.h"
#include "pulse/rocksdb.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "services/redis/commands/value.h"

namespace pulse::redis {
namespace {

// Of one compaction: by its time of begin, so that a key has the same fate in all of it.
class ExpiryFilter : public rocksdb::CompactionFilter {
 public:
  ExpiryFilter(int64_t now_ms, std::shared_ptr<std::atomic<uint64_t>> dropped)
      : now_ms_(now_ms), dropped_(std::move(dropped)) {}

  bool Filter(int, const rocksdb::Slice&, const rocksdb::Slice& stored, std::string*,
              bool*) const override {
    Value value;
    if (!DecodeValue({stored.data(), stored.size()}, &value) || !value.ExpiredAt(now_ms_)) {
      return false;
    }
    dropped_->fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  const char* Name() const override { return "PulseExpiryFilter"; }

 private:
  const int64_t now_ms_;
  std::shared_ptr<std::atomic<uint64_t>> dropped_;
};

class ExpiryFilterFactory : public rocksdb::CompactionFilterFactory {
 public:
  ExpiryFilterFactory(std::function<int64_t()> clock,
                      std::shared_ptr<std::atomic<uint64_t>> dropped)
      : clock_(std::move(clock)), dropped_(std::move(dropped)) {}

  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context&) override {
    return std::make_unique<ExpiryFilter>(clock_(), dropped_);
  }
  const char* Name() const override { return "PulseExpiryFilterFactory"; }

 private:
  std::function<int64_t()> clock_;
  std::shared_ptr<std::atomic<uint64_t>> dropped_;
};

}  // namespace

std::shared_ptr<rocksdb::CompactionFilterFactory> NewExpiryFilterFactory(
    std::function<int64_t()> clock, std::shared_ptr<std::atomic<uint64_t>> dropped) {
  return std::make_shared<ExpiryFilterFactory>(std::move(clock), std::move(dropped));
}

absl::StatusOr<std::shared_ptr<rocksdb::Env>> OpenEnv(const std::string& uri) {
  auto status = RegisterRocksDb();
  rocksdb::Env* env = nullptr;
  std::shared_ptr<rocksdb::Env> guard;
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  if (status.ok()) status = rocksdb::Env::CreateFromUri(config, "", uri, &env, &guard);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--uri ", uri, ": ", status.ToString()));
  }
  return guard;
}

}  // namespace pulse::redis
