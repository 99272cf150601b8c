// Checksums of any stretch of a file at a cost that does not depend on how long it is: of what
// stands before every 32nd byte the checksum is kept. A search for records among bytes that
// somebody chose looks at many stretches, each as long as it says.
//
// For stretches that begin ever later. One thread; blocks on nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pulse::graph {

class PrefixSums {
 public:
  // Whoever keeps bytes of the file for Of() keeps so many before the next stretch.
  static constexpr size_t kStep = 32;

  // CRC-32C of the file's bytes [begin, end), all of which `bytes` has, which begin at `at`.
  uint32_t Of(std::string_view bytes, uint64_t at, uint64_t begin, uint64_t end);
  void Clear() { sums_.clear(); }
  // Bytes that went through a checksum.
  uint64_t summed() const { return summed_; }

 private:
  uint32_t UpTo(std::string_view bytes, uint64_t at, uint64_t end);
  uint32_t Extend(uint32_t crc, std::string_view bytes);
  uint64_t known_end() const { return first_ + (sums_.size() - 1) * kStep; }

  uint64_t first_ = 0;          // where sums_[0] ends
  std::vector<uint32_t> sums_;  // of all from some place on, up to first_ + i * kStep
  uint64_t summed_ = 0;
};

}  // namespace pulse::graph
