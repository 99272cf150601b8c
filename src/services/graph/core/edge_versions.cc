#include "services/graph/core/edge_versions.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace pulse::graph {
namespace {

constexpr uint64_t kEntryBytes = 40;  // of the table and the allocator, about

}  // namespace

EdgeVersions::~EdgeVersions() { Cut(~uint64_t{0}); }

void EdgeVersions::Free(Version* version) {
  while (version != nullptr) {
    memory_.fetch_sub(sizeof(Version) + version->bytes + kEntryBytes, std::memory_order_relaxed);
    free(std::exchange(version, version->previous));
  }
}

void EdgeVersions::Add(EdgeId edge, uint64_t begin, bool deleted, std::string_view properties,
                       uint64_t oldest) {
  auto* version = static_cast<Version*>(malloc(sizeof(Version) + properties.size()));
  PULSE_CHECK(version != nullptr, "out of memory");
  *version = {begin, nullptr, static_cast<uint32_t>(properties.size()), deleted};
  if (!properties.empty()) std::memcpy(version + 1, properties.data(), properties.size());
  memory_.fetch_add(sizeof(Version) + properties.size() + kEntryBytes, std::memory_order_relaxed);
  Part& part = parts_[PartOf(edge)];
  std::lock_guard lock(part.mu);
  const auto [it, fresh] = part.versions.try_emplace(edge, version);
  if (fresh) {
    size_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  version->previous = it->second;
  it->second = version;
  while (version != nullptr && version->begin > oldest) version = version->previous;
  if (version != nullptr) Free(std::exchange(version->previous, nullptr));
}

void EdgeVersions::Cut(uint64_t sequence) {
  for (Part& part : parts_) {
    std::lock_guard lock(part.mu);
    for (auto it = part.versions.begin(); it != part.versions.end();) {
      Version* newest = it->second;
      if (newest->begin <= sequence) {
        Free(newest);
        size_.fetch_sub(1, std::memory_order_relaxed);
        part.versions.erase(it++);
        continue;
      }
      while (newest->previous != nullptr && newest->previous->begin > sequence) {
        newest = newest->previous;
      }
      Free(std::exchange(newest->previous, nullptr));
      ++it;
    }
  }
}

}  // namespace pulse::graph
