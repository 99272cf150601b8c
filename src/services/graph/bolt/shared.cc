#include "services/graph/bolt/shared.h"

#include <utility>

#include "services/graph/bolt/connection.h"

namespace pulse::bolt {

void UnauthenticatedList::Add(Entry entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back(std::move(entry));
}

void UnauthenticatedList::Sweep(int64_t then) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(entries_, [then](const Entry& entry) {
    const auto connection = entry.connection.lock();
    if (connection == nullptr) return true;
    const int64_t since = connection->unauthenticated_since();
    if (since == 0 || since >= then) return false;  // it may log off again
    entry.cut();
    return true;
  });
}

}  // namespace pulse::bolt
