#include "services/redis/slow_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace pulse::redis {
namespace {

constexpr size_t kMostArguments = 32;
constexpr size_t kMostArgumentBytes = 128;

std::vector<std::string> Shortened(const std::vector<std::string_view>& arguments) {
  const bool cut = arguments.size() > kMostArguments;
  const size_t shown = cut ? kMostArguments - 1 : arguments.size();
  std::vector<std::string> list;
  for (size_t i = 0; i < shown; ++i) {
    std::string& text = list.emplace_back(arguments[i].substr(0, kMostArgumentBytes));
    if (arguments[i].size() > kMostArgumentBytes) {
      absl::StrAppend(&text, "... (", arguments[i].size() - kMostArgumentBytes, " more bytes)");
    }
  }
  if (cut) list.push_back(absl::StrCat("... (", arguments.size() - shown, " more arguments)"));
  return list;
}

}  // namespace

size_t SlowLog::Entry::Bytes() const {
  size_t bytes = sizeof(Entry) + peer.size() + name.size();
  for (const std::string& argument : arguments) bytes += sizeof(argument) + argument.size() + 1;
  return bytes;
}

void SlowLog::DropOld() {
  while (!entries_.empty() &&
         (entries_.size() > static_cast<size_t>(length()) || bytes_ > kMostBytes)) {
    bytes_ -= entries_.back().Bytes();
    entries_.pop_back();
  }
}

void SlowLog::SetLimit(int64_t micros) {
  limit_micros_.store(micros, std::memory_order_relaxed);
  const double cycles = static_cast<double>(micros) * 1e3 * rate_.PerNano();
  limit_cycles_.store(micros < 0 || cycles >= 9e18 ? ~uint64_t{0} : static_cast<uint64_t>(cycles),
                      std::memory_order_relaxed);
}

void SlowLog::SetLength(int64_t entries) {
  const std::lock_guard<std::mutex> lock(mutex_);
  length_.store(std::max<int64_t>(entries, 0), std::memory_order_relaxed);
  DropOld();
}

void SlowLog::Add(const std::vector<std::string_view>& arguments, uint64_t cycles,
                  std::string_view peer, std::string_view name) {
  if (length() == 0) return;
  Entry entry;
  entry.seconds = WallMillis() / 1000;
  entry.micros = static_cast<int64_t>(static_cast<double>(cycles) / rate_.PerNano() / 1e3);
  entry.arguments = Shortened(arguments);
  entry.peer = peer;
  entry.name = name;
  const std::lock_guard<std::mutex> lock(mutex_);
  entry.id = next_id_++;
  bytes_ += entry.Bytes();
  entries_.push_front(std::move(entry));
  DropOld();
}

std::vector<SlowLog::Entry> SlowLog::Newest(size_t count) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {entries_.begin(),
          entries_.begin() + static_cast<ptrdiff_t>(std::min(count, entries_.size()))};
}

size_t SlowLog::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

void SlowLog::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
  bytes_ = 0;
}

}  // namespace pulse::redis
