#include "bench/macro/workload.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace pulse::bench {
namespace {

constexpr size_t kPoolBytes = size_t{1} << 20;

}  // namespace

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Key EncodeKey(uint64_t number) {
  Key key;
  key.fill('0');
  for (size_t i = 0; i < 8; ++i) key[i] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

uint64_t DecodeKey(std::string_view key) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8 && i < key.size(); ++i) {
    number = number << 8 | static_cast<unsigned char>(key[i]);
  }
  return number;
}

KeyStream::KeyStream(KeyOrder order, uint64_t num, uint64_t seed)
    : order_(order),
      num_(std::max<uint64_t>(num, 1)),
      seed_(Mix(seed + 1)),
      bits_(std::max(2, static_cast<int>(std::bit_width(num_ - 1)))),
      random_(seed_) {}

// A bijection of [0, 2^bits): every step can be undone.
uint64_t KeyStream::Permute(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << bits_) - 1;
  const int shift = (bits_ + 1) / 2;
  for (int round = 0; round < 3; ++round) {
    x = (x * 0x9e3779b97f4a7c15 + (seed_ >> round)) & mask;
    x ^= x >> shift;
  }
  return x;
}

uint64_t KeyStream::Next() {
  if (order_ == KeyOrder::kRandom) return random_.Below(num_);
  // Numbers beyond num are walked over: they lead back inside.
  uint64_t x = Permute(position_++ % num_);
  while (x >= num_) x = Permute(x);
  return x;
}

ValueMaker::ValueMaker(size_t value_bytes, uint64_t seed)
    : value_bytes_(value_bytes), stamp_bytes_(std::min<size_t>(value_bytes, 8)) {
  pool_.resize(kPoolBytes + value_bytes_ + 8);
  Random random(Mix(seed + 2));
  for (size_t i = 0; i + 8 <= pool_.size(); i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(&pool_[i], &word, 8);
  }
  scratch_.resize(value_bytes_);
}

std::string_view ValueMaker::Body(uint64_t key) const {
  return std::string_view(pool_).substr(Mix(key) % kPoolBytes, value_bytes_ - stamp_bytes_);
}

std::string_view ValueMaker::Make(uint64_t key, uint64_t stamp) {
  std::memcpy(scratch_.data(), &stamp, stamp_bytes_);
  const std::string_view body = Body(key);
  std::memcpy(scratch_.data() + stamp_bytes_, body.data(), body.size());
  return scratch_;
}

bool ValueMaker::Matches(uint64_t key, std::string_view value) const {
  return value.size() == value_bytes_ && value.substr(stamp_bytes_) == Body(key);
}

void Checksum::Add(std::string_view bytes) {
  uint64_t h = state_ ^ bytes.size();
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    h = std::rotl((h ^ word) * 0x9fb21c651e98df25, 29);
    bytes.remove_prefix(8);
  }
  uint64_t tail = 0;
  if (!bytes.empty()) std::memcpy(&tail, bytes.data(), bytes.size());
  state_ = Mix(h ^ tail);
}

}  // namespace pulse::bench
