#include <vector>

#include "base/clock.h"
#include "base/cpu_profile.h"
#include "services/redis/executor.h"

namespace pulse::redis {
namespace {

Command CommandOf(bool is_set) { return is_set ? Command::kSet : Command::kGet; }

}  // namespace

bool Executor::MayJoin(const Session& session, const PlainBatch& plain) const {
  if (!store_->runs_plain() || session.hears_alone()) return false;
  if (session.ended.load(std::memory_order_relaxed)) return false;
  if (session.buffers != nullptr && session.buffers->IsTight()) return false;
  return plain.entries.empty() || IsCurrent(plain);
}

bool Executor::IsCurrent(const PlainBatch& plain) const {
  return plain.users_version == facts_->users.version() &&
         plain.ended_clients == facts_->ended.load() &&
         (!node_ || plain.slots == node_.cluster->generation());
}

bool Executor::AddPlain(const Session& session, bool is_set, std::string_view key,
                        std::string_view value, PlainBatch* plain) {
  // What changes from here on is seen by RunPlain.
  const uint64_t ended = facts_->ended.load();
  const uint64_t slots = node_ ? node_.cluster->generation() : 0;
  if (!MayJoin(session, *plain) || !MayBatch(session, CommandOf(is_set)) ||
      (node_ && !node_.Has(key)) || !plain->HasRoom(key.size(), value.size())) {
    return false;
  }
  if (plain->entries.empty()) {
    plain->users_version = session.users_version;
    plain->ended_clients = ended;
    plain->slots = slots;
  }
  plain->Add(key, value, is_set, session.protocol);
  return true;
}

size_t Executor::AddPlain(const Session& session, RequestBatch* batch, PlainBatch* plain) {
  const size_t first = plain->entries.size();
  const size_t left = batch->entries.size() - batch->next;
  if (first + left > PlainBatch::kMostEntries || batch->bytes.size() > PlainBatch::kMostBytes) {
    return 0;
  }
  for (size_t i = batch->next; i < batch->entries.size(); ++i) {
    const Request* request = i < batch->parsed ? &batch->requests[i] : nullptr;
    const bool is_set = request != nullptr && request->size() == 3;
    if (request == nullptr || !IsBatchable(*request, CommandOf(is_set)) ||
        !AddPlain(session, is_set, (*request)[1], is_set ? (*request)[2] : std::string_view(),
                  plain)) {
      plain->Truncate(first);
      return 0;
    }
  }
  return plain->entries.size() - first;
}

void Executor::RunPlain(PlainBatch* plain) {
  if (ended_.load(std::memory_order_relaxed) || !IsCurrent(*plain) ||
      facts_->pause.Holds(plain->sets > 0)) {
    return;
  }
  const Tracking::Writing writing(0);  // who tracks does not join
  const CpuScope scope(CpuComponent::kStore);
  const uint64_t since = Cycles();
  store_->RunPlain(plain, &facts_->error_stats);
  plain->cycles = Cycles() - since;
  CommandCounts counts;
  counts.commands = plain->done();
  counts.hits = plain->hits;
  counts.misses = plain->misses;
  facts_->Add(counts);
}

void Executor::NotePlain(const Session& session, const PlainBatch& plain, size_t first,
                         size_t count) {
  const uint64_t each = plain.cycles / plain.done();
  const bool is_slow = facts_->slow_log.IsSlow(each);
  uint64_t calls[2] = {0, 0};
  for (size_t i = first; i < first + count; ++i) {
    const PlainBatch::Entry& entry = plain.entries[i];
    if (plain.ReplyOf(i)[0] == '-') {
      facts_->command_stats.Add(CommandOf(entry.is_set), 1, each, true);
    } else {
      ++calls[entry.is_set ? 1 : 0];
    }
    if (!is_slow) continue;
    std::vector<std::string_view> arguments = {entry.is_set ? "SET" : "GET", plain.KeyOf(entry)};
    if (entry.is_set) arguments.push_back(plain.ValueOf(entry));
    facts_->slow_log.Add(arguments, each, session.facts.peer, session.facts.name);
  }
  for (const bool is_set : {false, true}) {
    const uint64_t n = calls[is_set ? 1 : 0];
    if (n > 0) facts_->command_stats.Add(CommandOf(is_set), n, n * each, false);
  }
  const Command last = CommandOf(plain.entries[first + count - 1].is_set);
  session.facts.command->store(AllCommands()[static_cast<size_t>(last)], std::memory_order_relaxed);
}

}  // namespace pulse::redis
