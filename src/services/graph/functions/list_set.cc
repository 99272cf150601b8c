#include "services/graph/functions/list_set.h"

#include <bit>
#include <cmath>

namespace pulse::cypher {
namespace {

// A part of the limit of memory, beyond which there is no set.
constexpr size_t kSetShareOfMemory = 16;
// Places looked at for each element, on average, beyond which values share too many hashes.
constexpr uint64_t kMostSteps = 16;

}  // namespace

size_t ListSet::Look(uint64_t hash, const Value& value, uint64_t* steps) const {
  const ValueList& list = list_.as_list();
  size_t at = hash & (places_.size() - 1);
  for (; places_[at] != 0; at = (at + 1) & (places_.size() - 1)) {
    const size_t i = static_cast<uint32_t>(places_[at]) - 1;
    if (places_[at] == PlaceOf(hash, i) && Equals(list[i], value) == 1) break;
    ++*steps;
  }
  return at;
}

int ListSet::Find(const Value& value) const {
  if (value.is_null()) return -1;  // the list is not empty
  if (nests_ && (value.is_list() || value.is_map())) return kWalk;
  uint64_t steps = 0;
  if (places_[Look(Hash(value), value, &steps)] != 0) return 1;
  return has_null_ ? -1 : 0;
}

bool ListSet::Fill(EvalContext& context) {
  const ValueList& list = list_.as_list();
  uint64_t steps = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Value& value = list[i];
    if (!context.Tick(1 + value.Weight())) return false;
    has_null_ = has_null_ || value.is_null();
    nests_ = nests_ || value.is_list() || value.is_map();
    const bool nan = value.is_float() && std::isnan(value.as_float());  // equal to nothing
    if (value.is_null() || value.is_list() || value.is_map() || nan) continue;
    const uint64_t hash = Hash(value);
    uint64_t& place = places_[Look(hash, value, &steps)];
    if (place == 0) place = PlaceOf(hash, i);
    if (steps > kMostSteps * list.size()) return false;
  }
  return true;
}

bool ListSet::Make(EvalContext& context) {
  const size_t size = list_.as_list().size();
  const size_t places = std::bit_ceil(size * 2), bytes = places * sizeof(places_[0]);
  const size_t limit = context.limits.memory_bytes;
  const auto charge = static_cast<int64_t>(bytes);
  made_ = size >= UINT32_MAX || (limit != 0 && bytes > limit / kSetShareOfMemory) ||
          charge > context.MemoryRoom() / 2;
  if (made_) return true;
  bool filled = false;
  if (context.Charge(charge)) {
    places_.assign(places, 0);
    filled = Fill(context);
  }
  if (!filled) {
    std::vector<uint64_t>().swap(places_);
    context.Charge(-charge);
  }
  made_ = !context.failed();
  return made_;
}

const ListSet* ListSets::Find(const Value& list, uint64_t rows, EvalContext& context) {
  if (list.as_list().size() < kLeast) return nullptr;
  Known& known = known_[&list.as_list()];
  if (known.list.is_null()) known.list = list;
  known.rows += rows;
  if (known.rows < kRows) return nullptr;
  if (known.set == nullptr) {
    std::lock_guard lock(shared_->mu);
    ListSet& set = shared_->sets.try_emplace(&list.as_list(), list).first->second;
    if (!set.made() && !set.Make(context)) return nullptr;
    known.set = &set;
  }
  return known.set->none() ? nullptr : known.set;
}

}  // namespace pulse::cypher
