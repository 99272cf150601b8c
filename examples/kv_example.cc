// The in-memory store in one screen: a store of 64 MiB inside this program, without server or
// agent.
//
//   kv_example
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "pulse/kv.h"

using pulse::Kv;
using pulse::KvPair;

namespace {

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "kv_example: %s\n", status.ToString().c_str());
  std::exit(1);
}

void Print(std::string_view key, std::string_view value) {
  std::printf("%.*s = %.*s\n", static_cast<int>(key.size()), key.data(),
              static_cast<int>(value.size()), value.data());
}

}  // namespace

int main() {
  // When it is full, what is used least goes. A thread of the store gives back what has expired.
  const auto opened = Kv::Open({.memory_bytes = uint64_t{64} << 20,
                                .partitions = 2,
                                .policy = pulse::KvPolicy::kLru,
                                .tick_interval_ms = 100});
  Check(opened.status());
  Kv& store = **opened;

  // Single keys. Values are copied in, and out.
  Check(store.Set("city", "Lisbon"));
  std::string value;
  Check(store.Get("city", &value));
  Print("city", value);
  if (absl::IsNotFound(store.Get("country", &value))) std::printf("no country\n");
  Check(store.Increment("visits", 3).status());

  // It ends in a minute, unless somebody touches it.
  Check(store.Set("session", "alice", {.ttl_ms = 60'000}));
  Check(store.Touch("session", 120'000));

  // Batches cost less for each key. The callback sees values in place: it copies what it keeps.
  const std::array<KvPair, 3> pairs = {{{"a", "1"}, {"b", "2"}, {"c", "3"}}};
  Check(store.SetBatch(pairs));
  const std::array<std::string_view, 4> keys = {"a", "b", "c", "d"};
  Check(store.GetBatch(keys, [&](size_t i, std::optional<std::string_view> found) {
    Print(keys[i], found.value_or("(none)"));
  }));

  // A thread of a program that owns its threads takes a partition, and then no lock.
  const std::string_view mine = "a";
  auto owner = store.Own(store.PartitionOf(mine));
  Check(owner.status());
  Check((*owner)->Set(mine, "set by the owner"));
  owner->reset();  // from here on, the store's calls have it again

  std::printf("all items, in no order:\n");
  Check(store.ForEach([](const pulse::KvItem& item) { Print(item.key, item.value); }));

  const pulse::KvStats stats = store.Stats();
  std::printf("%llu items, %llu hits, %llu misses, %llu of %llu bytes are taken\n",
              static_cast<unsigned long long>(stats.items),
              static_cast<unsigned long long>(stats.hits),
              static_cast<unsigned long long>(stats.misses),
              static_cast<unsigned long long>(stats.used_bytes),
              static_cast<unsigned long long>(stats.memory_bytes));
  return 0;
}
