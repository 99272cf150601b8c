#include "net/byte_budget.h"

#include <algorithm>
#include <utility>

namespace pulse::net {
namespace {

// Who waits is woken when there is so much more room, a part of the limit.
constexpr uint64_t kSteps = 8;
// However many wait, so many are woken at a time.
constexpr size_t kWokenAtOnce = 16;

}  // namespace

void ByteBudget::Give(uint64_t bytes) {
  const uint64_t before = held_.fetch_sub(bytes);
  const uint64_t after = before - bytes;
  // Whoever joins the line later looks at what is held then.
  if (waiting_.load() == 0) return;
  const uint64_t step = std::max<uint64_t>(limit_ / kSteps, 1);
  const bool has_room_again = before > limit_ && after <= limit_;
  if (!has_room_again && before / step == after / step) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Wake(kWokenAtOnce);
}

void ByteBudget::Wake(size_t count) {
  for (const auto& remote : line_) {
    if (count-- == 0) return;
    remote->Post([] {});
  }
}

ByteBudget::Place ByteBudget::Join(std::shared_ptr<Remote> remote) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Place place = line_.insert(line_.end(), std::move(remote));
  waiting_.store(line_.size());
  return place;
}

bool ByteBudget::IsFirst(Place place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return place == line_.begin();
}

void ByteBudget::Leave(Place place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool was_first = place == line_.begin();
  line_.erase(place);
  waiting_.store(line_.size());
  if (!IsOver()) {
    Wake(kWokenAtOnce);
  } else if (was_first) {
    Wake(1);
  }
}

}  // namespace pulse::net
