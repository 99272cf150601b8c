// Streams as the formats' own libraries read and write them. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include <optional>
#include <string>

#include "services/ops/test_data.h"

namespace pulse::ops {

// The formats' own decoders. None: the stream is not valid. `members` are what zlib found.
inline std::optional<std::string> ReadWithZlib(const std::string& bytes,
                                               size_t* members = nullptr) {
  std::string data;
  std::string piece(1 << 20, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int got = Z_OK;
  size_t count = 0;
  while (got == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    got = inflate(&stream, Z_NO_FLUSH);
    data.append(piece.data(), piece.size() - stream.avail_out);
    if (got != Z_STREAM_END) continue;
    ++count;
    if (stream.avail_in > 0) got = inflateReset(&stream);
  }
  inflateEnd(&stream);
  if (members != nullptr) *members = count;
  if (got != Z_STREAM_END) return std::nullopt;
  return data;
}

inline std::optional<std::string> ReadWithZstd(const std::string& bytes, size_t size) {
  std::string data(size, '\0');
  const size_t got = ZSTD_decompress(data.data(), size, bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0) return std::nullopt;
  data.resize(got);
  return data;
}

inline std::optional<std::string> ReadWithLz4(const std::string& bytes, size_t size) {
  LZ4F_dctx* context = nullptr;
  LZ4F_createDecompressionContext(&context, LZ4F_VERSION);
  std::string data(size + 1, '\0');
  size_t in = 0;
  size_t out = 0;
  size_t got = 1;
  while (got != 0 && LZ4F_isError(got) == 0 && in < bytes.size()) {
    size_t room = data.size() - out;
    size_t taken = bytes.size() - in;
    got = LZ4F_decompress(context, &data[out], &room, &bytes[in], &taken, nullptr);
    in += taken;
    out += room;
    if (taken == 0 && room == 0) break;
  }
  LZ4F_freeDecompressionContext(context);
  if (got != 0 || in != bytes.size()) return std::nullopt;
  data.resize(out);
  return data;
}

inline std::optional<std::string> ReadWithLibrary(Format format, const std::string& bytes,
                                                  size_t size) {
  switch (format) {
    case Format::kZstd:
      return ReadWithZstd(bytes, size);
    case Format::kLz4:
      return ReadWithLz4(bytes, size);
    default:
      return ReadWithZlib(bytes);
  }
}

// As `gzip` writes it: one member, no marks.
inline std::string ForeignGzip(const std::string& data, int level = 6, int window_bits = 15 + 16) {
  z_stream stream{};
  deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string bytes(deflateBound(&stream, data.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

}  // namespace pulse::ops
