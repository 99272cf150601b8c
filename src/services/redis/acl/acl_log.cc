#include "services/redis/acl/acl_log.h"

#include <algorithm>
#include <utility>

namespace pulse::redis {
namespace {

constexpr int64_t kTogetherMs = 60'000;
constexpr size_t kMostText = 128;

}  // namespace

void AclLog::Add(Reason reason, bool in_multi, std::string_view object, std::string_view user,
                 std::string client, int64_t now_ms) {
  object = object.substr(0, kMostText);
  user = user.substr(0, kMostText);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.reason == reason && entry.in_multi == in_multi && entry.object == object &&
           entry.user == user && now_ms - entry.last_ms <= kTogetherMs;
  });
  Entry entry{1, reason, in_multi, std::string(object), std::string(user), "", now_ms};
  if (same != entries_.end()) {
    entry = std::move(*same);
    entries_.erase(same);
    ++entry.count;
    entry.last_ms = now_ms;
  }
  entry.client = std::move(client);
  entries_.push_front(std::move(entry));
  if (entries_.size() > kMost) entries_.pop_back();
}

std::vector<AclLog::Entry> AclLog::Newest(size_t count) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {entries_.begin(),
          entries_.begin() + static_cast<ptrdiff_t>(std::min(count, entries_.size()))};
}

void AclLog::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
}

}  // namespace pulse::redis
