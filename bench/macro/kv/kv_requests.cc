#include "bench/macro/kv/kv_requests.h"

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::bench {
namespace {

absl::Status Fill(const KvShape& shape, kv::KvStore* store) {
  std::string key(shape.key_bytes, '\0');
  absl::Status status;
  for (uint64_t number = 0; number < shape.items && status.ok(); ++number) {
    WriteKey(number, key.size(), key.data());
    store->WithPartition(key, true, [&](kv::Partition& partition, uint64_t hash) {
      kv::Item* item = nullptr;
      if (partition.Put(key, hash, shape.value_bytes, {}, &item) !=
          kv::Partition::Result::kStored) {
        status = absl::ResourceExhaustedError(
            absl::StrCat("item ", number, " of ", shape.items, " finds no room"));
        return;
      }
      std::memset(item->value_bytes(), 'v', shape.value_bytes);
      std::memcpy(item->value_bytes(), &number, std::min<size_t>(8, shape.value_bytes));
    });
  }
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<kv::KvStore>> OpenKvStore(const KvShape& shape) {
  kv::KvStoreOptions options;
  const uint64_t each = kv::Item::SizeOf(shape.key_bytes, shape.value_bytes, 0) + 20;
  options.memory_bytes = shape.items * each + (uint64_t{64} << 20);
  PULSE_ASSIGN_OR_RETURN(auto store, kv::KvStore::Open(options));
  PULSE_RETURN_IF_ERROR(Fill(shape, store.get()));
  return store;
}

}  // namespace pulse::bench
