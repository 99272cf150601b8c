#include "services/lsm/plugin/statistics.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pulse::lsm {
namespace {

class Statistics : public rocksdb::Statistics {
 public:
  Statistics(std::shared_ptr<FileSystem> fs, std::shared_ptr<rocksdb::Statistics> base)
      : fs_(std::move(fs)), base_(std::move(base)) {
    set_stats_level(base_->get_stats_level());
  }

  static const char* kClassName() { return "PulseStatistics"; }
  const char* Name() const override { return kClassName(); }
  const Customizable* Inner() const override { return base_.get(); }

  uint64_t getTickerCount(uint32_t type) const override { return base_->getTickerCount(type); }
  void histogramData(uint32_t type, rocksdb::HistogramData* data) const override {
    base_->histogramData(type, data);
  }
  std::string getHistogramString(uint32_t type) const override {
    return base_->getHistogramString(type);
  }
  void recordTick(uint32_t type, uint64_t count) override {
    ShareLevel();
    base_->recordTick(type, count);
  }
  void setTickerCount(uint32_t type, uint64_t count) override {
    base_->setTickerCount(type, count);
  }
  uint64_t getAndResetTickerCount(uint32_t type) override {
    return base_->getAndResetTickerCount(type);
  }
  void recordInHistogram(uint32_t type, uint64_t value) override {
    ShareLevel();
    base_->recordInHistogram(type, value);
  }
  bool HistEnabledForType(uint32_t type) const override { return base_->HistEnabledForType(type); }

  // The file system does not reset its counters: subtract their present values from now on.
  rocksdb::Status Reset() override {
    std::lock_guard lock(mu_);
    since_ = Counted();
    return base_->Reset();
  }
  using rocksdb::Statistics::ToString;
  std::string ToString() const override {
    std::string out = base_->ToString();
    for (const auto& [name, count] : Own()) absl::StrAppend(&out, name, " COUNT : ", count, "\n");
    return out;
  }
  bool getTickerMap(std::map<std::string, uint64_t>* map) const override {
    const bool had = base_->getTickerMap(map);
    for (const auto& [name, count] : Own()) (*map)[name] = count;
    return had;
  }

 private:
  // The base filters by its own level; setting the level here cannot be overridden.
  void ShareLevel() {
    if (base_->get_stats_level() != get_stats_level()) base_->set_stats_level(get_stats_level());
  }

  std::map<std::string, uint64_t> Counted() const {
    Stats stats{};
    GetStats(fs_.get(), &stats);  // it is one: checked when this was made
    return TickersOf(stats);
  }
  std::map<std::string, uint64_t> Own() const {
    std::lock_guard lock(mu_);  // else Reset could subtract counts that came after it
    std::map<std::string, uint64_t> now = Counted();
    for (const auto& [name, count] : since_) now[name] -= count;
    return now;
  }

  const std::shared_ptr<FileSystem> fs_;
  const std::shared_ptr<rocksdb::Statistics> base_;
  mutable std::mutex mu_;
  std::map<std::string, uint64_t> since_;
};

}  // namespace

std::map<std::string, uint64_t> TickersOf(const Stats& s) {
  return {
      {"pulse.agent.absent.micros", s.agentless_nanos / 1000},
      {"pulse.agent.failovers", s.failovers},
      {"pulse.agent.reconnects", s.reconnects},
      {"pulse.backpressure.micros", s.backpressure_nanos / 1000},
      {"pulse.backpressure.waits", s.backpressure_waits},
      {"pulse.barrier.micros", s.barrier_nanos / 1000},
      {"pulse.barrier.waits", s.barrier_waits},
      {"pulse.fetch.misses", s.fetch_misses},
      {"pulse.fetch.wait.micros", s.fetch_wait_nanos / 1000},
      {"pulse.fetch.waits", s.fetch_waits},
      {"pulse.fetched.bytes", s.bytes_fetched},
      {"pulse.flushes.on_agent", s.agent_flushes},
      {"pulse.flushes.on_agent.cpu.micros", s.agent_flush_nanos / 1000},
      {"pulse.inline.bytes", s.bytes_inline},
      {"pulse.persisted.bytes", s.bytes_persisted},
      {"pulse.persisted.files", s.files_persisted},
      {"pulse.sync.micros", s.sync_nanos / 1000},
      {"pulse.syncs", s.syncs},
      {"pulse.whole.compactions", s.whole_compactions},
      {"pulse.whole.on_agent.cpu.micros", s.agent_compaction_nanos / 1000},
      {"pulse.compression.on_agent.cpu.micros", s.agent_compression_nanos / 1000},
      {"pulse.whole.returned", s.whole_returned},
  };
}

std::shared_ptr<rocksdb::Statistics> NewStatistics(std::shared_ptr<FileSystem> fs,
                                                   std::shared_ptr<rocksdb::Statistics> base) {
  return std::make_shared<Statistics>(std::move(fs), std::move(base));
}

}  // namespace pulse::lsm
