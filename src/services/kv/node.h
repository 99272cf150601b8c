// KvNode: the keys of one node of a cluster, which are one partition of a KvStore. All keys that
// its commands name belong to the node, by their slots: who calls has seen to that. Commands that
// name none (SCAN, DBSIZE, FLUSHALL) are of its keys alone. Settings are the store's.
//
// Threads, blocking and errors: as KvStore, which owns it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/kv/store.h"

namespace pulse::kv {

class KvNode final : public redis::Keyspace {
 public:
  KvNode(KvStore* store, int index) : store_(store), place_(*store, static_cast<uint32_t>(index)) {}

  RunResult Run(const redis::CommandInfo& command, const redis::Arguments& args, bool may_block,
                redis::ReplyWriter* reply, redis::CommandCounts* counts) override {
    return store_->Run(place_, command, args, may_block, reply, counts);
  }
  RunResult RunGets(const redis::Request* requests, size_t count, uint64_t most_bytes,
                    bool may_block, redis::ReplyWriter* reply, std::vector<size_t>* ends,
                    redis::CommandCounts* counts) override {
    return store_->RunGets(place_, requests, count, most_bytes, may_block, reply, ends, counts);
  }
  RunResult RunSets(absl::Span<const redis::Request* const> sets, bool may_block,
                    absl::Span<std::string> errors) override {
    return store_->RunSets(place_, sets, may_block, errors);
  }
  void RunPlain(redis::PlainBatch* batch, redis::ErrorStats* errors) override {
    store_->RunPlain(place_, batch, errors);
  }
  bool runs_plain() const override { return true; }
  bool CollectsSets() const override { return store_->CollectsSets(); }
  void RunTransaction(const std::vector<Queued>& commands, const redis::WatchTable::Set& watches,
                      const Answer& answer, redis::ReplyWriter* reply,
                      redis::CommandCounts* counts) override {
    store_->RunTransaction(place_, commands, watches, answer, reply, counts);
  }
  bool Watch(const std::string_view* keys, size_t count, bool may_block,
             redis::WatchTable::Set* watches, std::string*) override {
    return store_->Watch(place_, keys, count, may_block, watches);
  }
  uint64_t largest_value() const override { return store_->largest_value(); }
  bool SizeOfValue(std::string_view key, bool may_block, uint64_t* bytes) override {
    return store_->SizeOfValue(key, may_block, bytes);
  }
  int64_t now_ms() const override { return store_->now_ms(); }
  const redis::KeyspaceLimits& limits() const override { return store_->limits(); }
  void AddInfo(std::string_view section, std::string* out) const override {
    store_->AddInfo(place_, section, out);
  }
  std::string_view section_name() const override { return store_->section_name(); }
  std::vector<Setting> Settings() const override { return store_->Settings(); }
  std::string Configure(std::string_view name, std::string_view value) override {
    return store_->Configure(name, value);
  }
  std::string CheckSetting(std::string_view name, std::string_view value) const override {
    return store_->CheckSetting(name, value);
  }
  void ResetCounters() override { store_->ResetCounters(); }
  redis::WatchTable* watch_table() override { return store_->watch_table(); }

 private:
  KvStore* const store_;
  const KvStore::Place place_;
};

}  // namespace pulse::kv
