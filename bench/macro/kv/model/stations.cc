#include "bench/macro/kv/model/stations.h"

#include <cmath>
#include <utility>

namespace pulse::kvmodel {

ReceiveQueue::ReceiveQueue(const Options& options) : options_(options), random_(options.seed) {
  if (options_.rate > 0) {
    next_ = Gap();
    return;
  }
  waiting_.assign(options_.capacity, 0);
  arrived_ = options_.capacity;
}

double ReceiveQueue::Gap() {
  if (options_.even) return 1 / options_.rate;
  // The standard's distributions differ from library to library; the generator does not.
  const double unit = (static_cast<double>(random_() >> 11) + 1) * 0x1p-53;
  return -std::log(unit) / options_.rate;
}

void ReceiveQueue::Fill(double now) {
  for (; next_ <= now; next_ += Gap()) {
    ++arrived_;
    if (waiting_.size() < options_.capacity) {
      waiting_.push_back(next_);
    } else {
      ++dropped_;
    }
  }
}

std::vector<double> ReceiveQueue::Take(double now, size_t most) {
  const bool full = options_.rate <= 0;
  if (!full) Fill(now);
  const size_t count = std::min(most, waiting_.size());
  const auto end = waiting_.begin() + static_cast<ptrdiff_t>(count);
  std::vector<double> taken(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  if (full) {
    waiting_.insert(waiting_.end(), count, now);
    arrived_ += count;
  }
  return taken;
}

void Core::Look() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const size_t at = order_ == Order::kInTurn ? (turn_ + i) % sources_.size() : i;
    std::optional<Work> work = sources_[at]();
    if (!work.has_value()) continue;
    turn_ = at + 1;
    busy_ = true;
    const double end = events_.now() + work->nanos;
    events_.At(end, [this, work = *std::move(work)] {
      busy_nanos_ += work.nanos;
      work.done();
      busy_ = false;
      Look();
    });
    return;
  }
}

}  // namespace pulse::kvmodel
