#include "bench/macro/workload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace pulse::bench {
namespace {

constexpr size_t kPoolBytes = size_t{1} << 20;

// Overwrites `out` with what services log: records of named fields, with words that are drawn from
// some hundreds, a few of them far more often than the others, and with numbers.
void FillWithText(Random* random, std::string* out) {
  constexpr uint64_t kWords = 512;
  std::vector<std::string> words(kWords);
  for (std::string& word : words) {
    const uint64_t letters = 3 + random->Below(8);
    for (uint64_t i = 0; i < letters; ++i) {
      // The least of two draws: some letters are more frequent, as in languages.
      word += static_cast<char>('a' + std::min(random->Below(26), random->Below(26)));
    }
  }
  // A product of two uniform draws favours the first words.
  const auto word = [&] {
    return words[static_cast<size_t>(random->Unit() * random->Unit() * kWords)];
  };
  const size_t size = out->size();
  out->clear();
  while (out->size() < size) {
    out->append("{\"time\":" + std::to_string(1'760'000'000'000 + random->Below(86'400'000)) +
                ",\"level\":\"" + (random->Below(8) == 0 ? "error" : "info") + "\",\"service\":\"" +
                word() + "\",\"host\":\"" + word() + "-" + std::to_string(random->Below(100)) +
                "\",\"message\":\"");
    for (uint64_t i = 0, n = 4 + random->Below(8); i < n; ++i) out->append(word() + " ");
    out->append("\",\"user\":" + std::to_string(random->Below(1'000'000)) +
                ",\"took_us\":" + std::to_string(random->Below(20'000)) + "}\n");
  }
  out->resize(size);
}

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

ValueMaker::ValueMaker(size_t value_bytes, uint64_t seed, bool text)
    : value_bytes_(value_bytes), stamp_bytes_(std::min<size_t>(value_bytes, 8)) {
  pool_.resize(kPoolBytes + value_bytes_ + 8);
  Random random(Mix(seed + 2));
  if (text) FillWithText(&random, &pool_);
  for (size_t i = 0; !text && i + 8 <= pool_.size(); i += 8) {
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
