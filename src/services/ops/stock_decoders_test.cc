// Streams that host and agent wrote together, by each codec and at each split, beside what the
// formats' libraries and published layouts say they are.
#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>
#include <libdeflate.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/ops/codecs.h"
#include "services/ops/format.h"
#include "services/ops/test_data.h"
#include "services/ops/test_decoders.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

// libdeflate takes a whole stream at once, member by member.
std::optional<std::string> ReadWithLibdeflate(Format format, const std::string& bytes,
                                              size_t size) {
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> reader(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  std::string data(size + 1, '\0');
  size_t in = 0;
  size_t out = 0;
  while (in < bytes.size()) {
    size_t taken = 0;
    size_t made = 0;
    const auto decode =
        format == Format::kZlib ? libdeflate_zlib_decompress_ex : libdeflate_gzip_decompress_ex;
    if (decode(reader.get(), &bytes[in], bytes.size() - in, &data[out], data.size() - out, &taken,
               &made) != LIBDEFLATE_SUCCESS) {
      return std::nullopt;
    }
    in += taken;
    out += made;
  }
  data.resize(out);
  return data;
}

// ISA-L, as igzip has it.
std::optional<std::string> ReadWithIsal(Format format, const std::string& bytes, size_t size) {
  std::string data(size + 1, '\0');
  size_t in = 0;
  size_t out = 0;
  while (in < bytes.size()) {
    inflate_state state;
    isal_inflate_init(&state);
    state.crc_flag = format == Format::kZlib ? ISAL_ZLIB : ISAL_GZIP;
    state.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(&bytes[in]));
    state.avail_in = static_cast<uint32_t>(bytes.size() - in);
    state.next_out = reinterpret_cast<uint8_t*>(&data[out]);
    state.avail_out = static_cast<uint32_t>(data.size() - out);
    if (isal_inflate(&state) != ISAL_DECOMP_OK || state.block_state != ISAL_BLOCK_FINISH) {
      return std::nullopt;
    }
    in = bytes.size() - state.avail_in;
    out = data.size() - state.avail_out;
  }
  data.resize(out);
  return data;
}

struct FormatAndCodec {
  Format format;
  Codec codec;
};

class CodecAndSplit : public ::testing::TestWithParam<FormatAndCodec> {};
INSTANTIATE_TEST_SUITE_P(All, CodecAndSplit,
                         ::testing::Values(FormatAndCodec{Format::kGzip, Codec::kIsal},
                                           FormatAndCodec{Format::kGzip, Codec::kZlib},
                                           FormatAndCodec{Format::kGzip, Codec::kLibdeflate},
                                           FormatAndCodec{Format::kZlib, Codec::kIsal},
                                           FormatAndCodec{Format::kZlib, Codec::kZlib},
                                           FormatAndCodec{Format::kZlib, Codec::kLibdeflate},
                                           FormatAndCodec{Format::kBgzf, Codec::kIsal},
                                           FormatAndCodec{Format::kBgzf, Codec::kZlib},
                                           FormatAndCodec{Format::kBgzf, Codec::kLibdeflate},
                                           FormatAndCodec{Format::kZstd, Codec::kZstd},
                                           FormatAndCodec{Format::kLz4, Codec::kLz4}),
                         [](const auto& param) {
                           return std::string(FormatName(param.param.format)) + "_" +
                                  std::string(TraitsOf(param.param.codec).name);
                         });

TEST_P(CodecAndSplit, EverySplit_IsReadByEveryLibraryAndBackByEverySplit) {
  const Format format = GetParam().format;
  const bool deflate = format != Format::kZstd && format != Format::kLz4;
  const std::string data = MakeData(Kind::kMixed, 400'000, TestSeed());
  Processors shared;
  shared.host_cpus = shared.agent_cpus = {0};
  for (int percent = 0; percent <= 100; percent += 10) {
    CompressOptions options;
    options.format = format;
    options.codec = GetParam().codec;
    options.chunk_bytes = 16 << 10;
    options.processors = shared;
    options.processors.placement = {Placement::Kind::kSplit, percent};
    const auto bytes = CompressText(options, data);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(ReadWithLibrary(format, *bytes, data.size()), data) << percent;
    if (deflate) {
      EXPECT_EQ(ReadWithLibdeflate(format, *bytes, data.size()), data) << percent;
      EXPECT_EQ(ReadWithIsal(format, *bytes, data.size()), data) << percent;
    }
    DecompressOptions back;
    back.processors = shared;
    back.processors.placement = {Placement::Kind::kSplit, 100 - percent};
    const Decompressed ours = DecompressText(*bytes, false, back);
    ASSERT_TRUE(ours.status.ok()) << ours.status;
    EXPECT_EQ(ours.data, data) << percent;
  }
}

// The seekable format as zstd's contrib/seekable_format publishes it: each frame's sizes in a
// skippable frame at the end, with a footer behind them.
TEST(ZstdSeekTable, Layout_IsThePublishedOneAndEachFrameDecodesAlone) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{64} << 10, size_t{500'000}}) {
    const std::string data = MakeData(Kind::kText, size, TestSeed());
    CompressOptions options;
    options.format = Format::kZstd;
    options.chunk_bytes = 64 << 10;
    const auto bytes = CompressText(options, data);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    constexpr size_t kFooter = 9;
    constexpr size_t kHeader = 8;
    ASSERT_GT(bytes->size(), kFooter + kHeader);
    const char* const footer = bytes->data() + bytes->size() - kFooter;
    EXPECT_EQ(LoadLe32(footer + 5), 0x8F92EAB1u);
    const auto descriptor = static_cast<uint8_t>(footer[4]);
    EXPECT_EQ(descriptor & 0x7F, 0) << "no reserved bits";
    const size_t entry = (descriptor & 0x80) != 0 ? 12 : 8;  // with a checksum, or without
    const uint32_t frames = LoadLe32(footer);
    const size_t table = kHeader + frames * entry + kFooter;
    ASSERT_LE(table, bytes->size());
    const char* const begin = bytes->data() + bytes->size() - table;
    EXPECT_EQ(LoadLe32(begin), 0x184D2A5Eu);
    EXPECT_EQ(LoadLe32(begin + 4), table - kHeader);
    size_t in = 0;
    size_t out = 0;
    for (uint32_t i = 0; i < frames; ++i) {
      const uint32_t compressed = LoadLe32(begin + kHeader + i * entry);
      const uint32_t plain = LoadLe32(begin + kHeader + i * entry + 4);
      ASSERT_LE(in + compressed, bytes->size() - table);
      EXPECT_EQ(ReadWithZstd(bytes->substr(in, compressed), plain), data.substr(out, plain)) << i;
      in += compressed;
      out += plain;
    }
    EXPECT_EQ(in, bytes->size() - table);
    EXPECT_EQ(out, data.size());
  }
}

}  // namespace
}  // namespace pulse::ops
