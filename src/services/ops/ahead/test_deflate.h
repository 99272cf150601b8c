// For tests: DEFLATE streams of several encoders, and where their blocks are by zlib.
#pragma once

#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>
#include <libdeflate.h>
#include <zlib.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/ops/format.h"

namespace pulse::ops {

struct Encoder {
  enum class Library { kZlib, kLibdeflate, kIsal } library = Library::kZlib;
  int level = 6;
  int strategy = Z_DEFAULT_STRATEGY;  // zlib's
  int memory = 8;                     // zlib's; how large blocks get
};

inline std::vector<Encoder> Encoders() {
  std::vector<Encoder> all;
  for (int level = 0; level <= 9; ++level) {
    all.push_back({Encoder::Library::kZlib, level, Z_DEFAULT_STRATEGY, 8});
    all.push_back({Encoder::Library::kZlib, level, Z_DEFAULT_STRATEGY, 1});
  }
  for (const int strategy : {Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED}) {
    all.push_back({Encoder::Library::kZlib, 6, strategy, 2});
  }
  for (const int level : {1, 6, 12}) all.push_back({Encoder::Library::kLibdeflate, level, 0, 0});
  for (int level = 0; level <= 3; ++level) all.push_back({Encoder::Library::kIsal, level, 0, 0});
  return all;
}

inline std::string Describe(const Encoder& encoder) {
  return "library " + std::to_string(static_cast<int>(encoder.library)) + " level " +
         std::to_string(encoder.level) + " strategy " + std::to_string(encoder.strategy) +
         " memory " + std::to_string(encoder.memory);
}

// Raw DEFLATE.
inline std::string Deflate(const Encoder& encoder, const std::string& data) {
  std::string bytes(2 * data.size() + 4096, '\0');
  if (encoder.library == Encoder::Library::kLibdeflate) {
    const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> of(
        libdeflate_alloc_compressor(encoder.level), libdeflate_free_compressor);
    bytes.resize(libdeflate_deflate_compress(of.get(), data.data(), data.size(), bytes.data(),
                                             bytes.size()));
    return bytes;
  }
  if (encoder.library == Encoder::Library::kIsal) {
    isal_zstream stream;
    isal_deflate_init(&stream);
    std::string level_buffer(ISAL_DEF_LVL3_EXTRA_LARGE, '\0');
    stream.level = static_cast<uint32_t>(encoder.level);
    stream.level_buf = reinterpret_cast<uint8_t*>(level_buffer.data());
    stream.level_buf_size = static_cast<uint32_t>(level_buffer.size());
    stream.end_of_stream = 1;
    stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uint32_t>(data.size());
    stream.next_out = reinterpret_cast<uint8_t*>(bytes.data());
    stream.avail_out = static_cast<uint32_t>(bytes.size());
    EXPECT_EQ(isal_deflate(&stream), COMP_OK);
    bytes.resize(bytes.size() - stream.avail_out);
    return bytes;
  }
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, encoder.level, Z_DEFLATED, -15, encoder.memory, encoder.strategy),
            Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(bytes.size() - stream.avail_out);
  deflateEnd(&stream);
  return bytes;
}

// One member of gzip.
inline std::string Gzip(const Encoder& encoder, const std::string& data) {
  std::string bytes("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  bytes += Deflate(encoder, data);
  AppendLe(bytes, crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()), 4);
  AppendLe(bytes, data.size(), 4);
  return bytes;
}

struct BlockPlace {
  uint64_t bit = 0;
  uint64_t data = 0;     // where its data begin
  bool dynamic = false;  // with codes of its own, and not the last one
};

// Of a raw stream, as zlib finds them; the last one is the end.
inline std::vector<BlockPlace> BlocksOf(const std::string& bytes) {
  std::vector<BlockPlace> blocks;
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, -15), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string room(1 << 16, '\0');
  const auto add = [&] {
    BlockPlace block;
    block.bit = uint64_t{stream.total_in} * 8 - static_cast<uint64_t>(stream.data_type & 7);
    block.data = stream.total_out;
    uint32_t head = static_cast<uint8_t>(bytes[block.bit / 8]);
    if (block.bit / 8 + 1 < bytes.size()) {
      head |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[block.bit / 8 + 1])) << 8;
    }
    block.dynamic = (head >> (block.bit % 8) & 7) == 4;
    blocks.push_back(block);
  };
  blocks.push_back({0, 0, (static_cast<uint8_t>(bytes[0]) & 7) == 4});
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    const int got = inflate(&stream, Z_BLOCK);
    const bool boundary = (stream.data_type & 128) != 0;
    if (got == Z_STREAM_END || (got == Z_OK && boundary && (stream.data_type & 64) != 0)) {
      blocks.push_back({uint64_t{stream.total_in} * 8 - static_cast<uint64_t>(stream.data_type & 7),
                        stream.total_out, false});
      break;
    }
    if (got != Z_OK) {
      ADD_FAILURE() << "zlib: " << got;
      break;
    }
    if (boundary) add();
  }
  inflateEnd(&stream);
  return blocks;
}

}  // namespace pulse::ops
