// Writes MANIFEST records: what the library at hand would not write, or not when a test wants it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/crc32c.h"

namespace pulse::lsm::test {

inline std::string Varint(uint64_t v) {
  std::string s;
  for (; v >= 0x80; v >>= 7) s.push_back(static_cast<char>(v | 0x80));
  s.push_back(static_cast<char>(v));
  return s;
}
inline std::string Bytes(const std::string& s) { return Varint(s.size()) + s; }
inline std::string NewFile4(uint64_t number, const std::string& custom = "") {
  return Varint(103) + Varint(0) + Varint(number) + Varint(1000) + Bytes("smallest") +
         Bytes("largest") + Varint(1) + Varint(2) + custom + Varint(1);
}
inline std::string BlobFile(uint64_t number, const std::string& custom = "") {
  return Varint(number) + Varint(1) + Varint(2) + Bytes("method") + Bytes("sum") + custom +
         Varint(0);
}

inline constexpr size_t kBlock = 32768;

// Frames records as a MANIFEST does.
class Framer {
 public:
  explicit Framer(bool recyclable = false)
      : recyclable_(recyclable), header_(recyclable ? 11 : 7) {}
  void Add(const std::string& record) {
    size_t at = 0;
    bool first = true;
    do {
      size_t left = kBlock - out_.size() % kBlock;
      if (left < header_) {
        out_.append(left, '\0');
        left = kBlock;
      }
      const size_t n = std::min(left - header_, record.size() - at);
      const bool last = at + n == record.size();
      const int type = first && last ? 1 : first ? 2 : last ? 4 : 3;
      Fragment(type + (recyclable_ ? 4 : 0), record.substr(at, n));
      at += n;
      first = false;
    } while (at < record.size());
  }
  void Fragment(int type, const std::string& payload) {
    std::string checked(1, static_cast<char>(type));
    if (recyclable_) checked.append(4, '\x07');
    checked += payload;
    const uint32_t crc = MaskedCrc32c(Crc32c(checked.data(), checked.size()));
    for (int i = 0; i < 4; ++i) out_.push_back(static_cast<char>(crc >> (8 * i)));
    out_.push_back(static_cast<char>(payload.size() & 0xff));
    out_.push_back(static_cast<char>(payload.size() >> 8));
    out_ += checked;
  }
  const std::string& bytes() const { return out_; }

 private:
  const bool recyclable_;
  const size_t header_;
  std::string out_;
};

// A MANIFEST's bytes that add the table `number`.
inline std::string Naming(uint64_t number) {
  Framer log;
  log.Add(NewFile4(number));
  return log.bytes();
}

// As a file system that encrypts by a stream writes them.
template <typename Rng>
std::string Encrypted(std::string bytes, Rng* rng) {
  for (char& c : bytes) c = static_cast<char>(c ^ static_cast<char>((*rng)() & 0xff));
  return bytes;
}

}  // namespace pulse::lsm::test
