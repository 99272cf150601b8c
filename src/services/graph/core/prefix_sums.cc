#include "services/graph/core/prefix_sums.h"

#include "base/crc32c.h"

namespace pulse::graph {

uint32_t PrefixSums::Extend(uint32_t crc, std::string_view bytes) {
  summed_ += bytes.size();
  return ExtendCrc32c(crc, bytes.data(), bytes.size());
}

uint32_t PrefixSums::UpTo(std::string_view bytes, uint64_t at, uint64_t end) {
  while (known_end() + kStep <= end) {
    sums_.push_back(Extend(sums_.back(), bytes.substr(known_end() - at, kStep)));
  }
  const uint64_t rest = (end - first_) % kStep;
  return Extend(sums_[(end - first_) / kStep], bytes.substr(end - rest - at, rest));
}

uint32_t PrefixSums::Of(std::string_view bytes, uint64_t at, uint64_t begin, uint64_t end) {
  if (sums_.empty() || begin < first_ || known_end() < at ||
      begin - (begin - first_) % kStep < at) {
    first_ = begin;
    sums_.assign(1, 0);
  }
  // What is before is of no use any more.
  const uint64_t past = (begin - first_) / kStep;
  if (past > 1024 && past < sums_.size() && past > sums_.size() / 2) {
    sums_.erase(sums_.begin(), sums_.begin() + static_cast<ptrdiff_t>(past));
    first_ += past * kStep;
  }
  const uint32_t front = UpTo(bytes, at, begin);
  return Crc32cOfLast(UpTo(bytes, at, end), front, end - begin);
}

}  // namespace pulse::graph
