#include "services/graph/cypher/join_table.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_eval.h"

namespace pulse::cypher {
namespace {

// A part of the limit of memory, beyond which a table is none.
constexpr size_t kShareOfMemory = 4;
// Who waits for a table looks at its limits so often.
constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr uint64_t kLookWork = 4096;  // what makes a context look at the clock

}  // namespace

bool JoinTable::Charge(EvalContext& context) {
  const size_t bytes = hashes_.capacity() * sizeof(hashes_[0]) +
                       nodes_.capacity() * sizeof(nodes_[0]) +
                       (heads_.capacity() + next_.capacity()) * sizeof(next_[0]);
  const int64_t more = static_cast<int64_t>(bytes) - charged_;
  if (more <= 0) return true;
  const size_t limit = context.limits.memory_bytes;
  too_large_ = (limit != 0 && bytes > limit / kShareOfMemory) || more > context.MemoryRoom() / 2;
  if (too_large_) return false;
  charged_ += more;
  return context.Charge(more);
}

bool JoinTable::Add(std::span<const NodeId> nodes, std::span<const Token> keys,
                    EvalContext& context) {
  columns_.resize(keys.size());
  for (size_t k = 0; k < keys.size(); ++k) {
    if (!context.Check(context.graph->ReadNodeProperty(keys[k], nodes, &columns_[k]))) return false;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    values_.clear();
    for (const Column& column : columns_) values_.push_back(ValueAt(column, i));
    // Null is equal to nothing.
    if (std::any_of(values_.begin(), values_.end(), [](const Value& v) { return v.is_null(); }))
      continue;
    hashes_.push_back(TupleSet::HashOf(values_));
    nodes_.push_back(nodes[i]);
  }
  too_large_ = too_large_ || nodes_.size() >= UINT32_MAX / 2;
  return !too_large_ && Charge(context) && context.Tick(nodes.size());
}

bool JoinTable::Finish(EvalContext& context) {
  Forget(&columns_);
  Forget(&values_);
  const size_t places = std::bit_ceil(nodes_.size() * 2);
  heads_.reserve(places);
  next_.reserve(nodes_.size());
  if (!Charge(context)) return false;
  heads_.assign(places, 0);
  next_.resize(nodes_.size());
  for (size_t i = nodes_.size(); i > 0; --i) {
    uint32_t& head = heads_[PlaceOf(hashes_[i - 1])];
    next_[i - 1] = head;
    head = static_cast<uint32_t>(i);
  }
  return context.Tick(nodes_.size());
}

JoinTables::Entry* JoinTables::EntryOf(const Step* step) {
  std::lock_guard lock(mu_);
  std::unique_ptr<Entry>& entry = entries_[step];
  if (entry == nullptr) entry = std::make_unique<Entry>();
  return entry.get();
}

std::shared_ptr<const JoinTable> JoinTables::Get(const Step* step, EvalContext& context,
                                                 const Fill& fill) {
  Entry* const entry = EntryOf(step);
  {
    std::unique_lock lock(entry->mu);
    while (!entry->ready.wait_for(lock, kLookEvery, [entry] { return !entry->making; })) {
      lock.unlock();
      if (!context.Tick(kLookWork)) return nullptr;
      lock.lock();
    }
    if (entry->made) return entry->table;
    entry->making = true;
  }
  auto table = std::shared_ptr<JoinTable>();
  bool made = false;
  try {
    table = std::make_shared<JoinTable>();
    if (!fill(table.get()) || !table->Finish(context)) {
      table->Uncharge(context);
      table.reset();
    }
    // Other threads find the same error, or another.
    made = !context.failed();
  } catch (...) {
    Made(entry, nullptr, false);
    throw;
  }
  Made(entry, table, made);
  return table;
}

void JoinTables::Made(Entry* entry, std::shared_ptr<JoinTable> table, bool made) {
  {
    std::lock_guard lock(entry->mu);
    if (made) entry->table = std::move(table);
    entry->made = made;
    entry->making = false;
  }
  entry->ready.notify_all();
}

void JoinTables::Forget(const Step* step, EvalContext& context) {
  Entry* const entry = EntryOf(step);
  std::lock_guard lock(entry->mu);
  if (entry->table != nullptr) entry->table->Uncharge(context);
  entry->table.reset();
  entry->made = false;
}

}  // namespace pulse::cypher
