// The frame around LZ4 blocks: its header, as this library writes and reads it. Thread-safe, never
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::ops {

inline constexpr uint32_t kLz4Stored = 0x80000000u;  // in a block's size: it is not compressed

struct Lz4Header {
  bool independent = true;
  bool block_checksums = true;
  bool content_checksum = false;
  bool dictionary = false;
  std::optional<uint64_t> content_size;
  size_t max_block = size_t{1} << 20;
  size_t size = 0;  // of the header
};

// For independent blocks with checksums, of at most 64 KiB << (2 * n) bytes, n from 0 to 3.
std::string WriteLz4Header(size_t max_block);

// The header that `bytes` begins with. OutOfRange: it is longer. DataLoss: it is damaged.
absl::StatusOr<Lz4Header> ReadLz4Header(absl::string_view bytes);

uint32_t Xxh32(const void* data, size_t size);
// XXH32 of several pieces.
class Xxh32Stream {
 public:
  Xxh32Stream();
  ~Xxh32Stream();
  Xxh32Stream(const Xxh32Stream&) = delete;
  Xxh32Stream& operator=(const Xxh32Stream&) = delete;
  void Add(const void* data, size_t size);
  uint32_t Digest() const;

 private:
  void* state_;
};

}  // namespace pulse::ops
