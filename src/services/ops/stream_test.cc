// Whole streams: what Compress writes is what the formats' own libraries read, and Decompress reads
// what anybody writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include <csignal>
#include <optional>

#include "base/testing.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/test_data.h"
#include "services/ops/test_decoders.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;
using testing_util::Text;

const bool kIgnoresSigpipe = signal(SIGPIPE, SIG_IGN) != SIG_ERR;

struct Case {
  Format format;
  Codec codec;
};

class EveryCodec : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    All, EveryCodec,
    ::testing::Values(Case{Format::kGzip, Codec::kIsal}, Case{Format::kGzip, Codec::kZlib},
                      Case{Format::kGzip, Codec::kLibdeflate}, Case{Format::kZlib, Codec::kIsal},
                      Case{Format::kZlib, Codec::kZlib}, Case{Format::kZlib, Codec::kLibdeflate},
                      Case{Format::kBgzf, Codec::kIsal}, Case{Format::kBgzf, Codec::kZlib},
                      Case{Format::kBgzf, Codec::kLibdeflate}, Case{Format::kZstd, Codec::kZstd},
                      Case{Format::kLz4, Codec::kLz4}),
    [](const auto& param) {
      return std::string(FormatName(param.param.format)) + "_" +
             std::string(TraitsOf(param.param.codec).name);
    });

TEST_P(EveryCodec, EveryLevel_IsReadByItsLibraryAndByUs) {
  const CodecTraits& traits = TraitsOf(GetParam().codec);
  for (int level = traits.min_level; level <= traits.max_level; ++level) {
    for (const Kind kind : {Kind::kText, Kind::kRandom, Kind::kZeros, Kind::kMixed}) {
      const std::string data = MakeData(kind, 300'000, TestSeed() + static_cast<uint64_t>(level));
      CompressOptions options;
      options.format = GetParam().format;
      options.codec = GetParam().codec;
      options.level = level;
      options.chunk_bytes = 64 << 10;
      const auto bytes = CompressText(options, data);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(ReadWithLibrary(options.format, *bytes, data.size()), data)
          << "level " << level << ", kind " << static_cast<int>(kind);
      const Decompressed back = DecompressText(*bytes);
      ASSERT_TRUE(back.status.ok()) << back.status;
      EXPECT_EQ(back.data, data);
      EXPECT_EQ(back.report.parallel_members, back.report.members);
    }
  }
}

TEST_P(EveryCodec, EverySize_AlsoThroughPipes) {
  std::mt19937_64 random(TestSeed());
  std::vector<size_t> sizes = {0, 1, 2, 100, 4095, 4096, 4097, 65280, 65281, 8 * 4096};
  for (int i = 0; i < 10; ++i) sizes.push_back(random() % 200'000);
  for (const size_t size : sizes) {
    const std::string data = MakeData(Kind::kMixed, size, random());
    CompressOptions options;
    options.format = GetParam().format;
    options.codec = GetParam().codec;
    options.level = 1;
    options.chunk_bytes = 4096;
    const bool pipe = random() % 2 == 0;
    const auto bytes = CompressText(options, data, pipe);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(ReadWithLibrary(options.format, *bytes, size), data) << size;
    const Decompressed back = DecompressText(*bytes, !pipe);
    ASSERT_TRUE(back.status.ok()) << back.status << ", size " << size;
    EXPECT_EQ(back.data, data);
  }
}

TEST_P(EveryCodec, Placement_DoesNotChangeTheBytes) {
  const std::string data = MakeData(Kind::kText, 500'000, TestSeed());
  CompressOptions options;
  options.format = GetParam().format;
  options.codec = GetParam().codec;
  options.level = 3;
  options.chunk_bytes = 16 << 10;
  const auto expected = CompressText(options, data);
  ASSERT_TRUE(expected.ok());
  const std::vector<int> cpus = {0};
  for (const char* placement : {"host", "agent", "split=0", "split=30", "split=100", "auto"}) {
    options.processors.host_cpus = cpus;
    options.processors.agent_cpus = cpus;
    options.processors.placement = *Placement::Parse(placement);
    const auto bytes = CompressText(options, data);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, *expected) << placement;
  }
}

// Whether byte `at` lies in the header of a block. A block whose header is damaged may be an
// ordinary member of gzip, which is written before its checksum is compared.
bool IsInBgzfHeader(const std::string& bytes, size_t at) {
  constexpr size_t kHeader = 18;
  for (size_t begin = 0; begin + kHeader <= bytes.size();) {
    if (at < begin + kHeader) return at >= begin;
    const auto low = static_cast<unsigned char>(bytes[begin + 16]);
    const auto high = static_cast<unsigned char>(bytes[begin + 17]);
    begin += size_t{low} + 256 * size_t{high} + 1;
  }
  return false;
}

// Whether byte `at` is the last one of the size of a block in LZ4 frames. Its highest bit says that
// the block is stored as it is, and only the checksum of the frame's content covers it.
bool HasLz4StoredBit(const std::string& bytes, size_t at) {
  const auto u8 = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto u32 = [&](size_t i) {
    return u8(i) | uint32_t{u8(i + 1)} << 8 | uint32_t{u8(i + 2)} << 16 | uint32_t{u8(i + 3)} << 24;
  };
  for (size_t i = 0; i + 7 <= bytes.size();) {
    if ((u32(i) & ~uint32_t{15}) == 0x184d2a50) {  // a skippable frame
      i += 8 + size_t{u32(i + 4)};
      continue;
    }
    const unsigned flags = u8(i + 4);
    const size_t block_checksum = (flags & 16) != 0 ? 4 : 0;
    i += 7 + ((flags & 8) != 0 ? 8 : 0) + ((flags & 1) != 0 ? 4 : 0);
    for (bool end = false; !end && i + 4 <= bytes.size();) {
      const uint32_t size = u32(i);
      if (at == i + 3) return size != 0;
      end = size == 0;
      i += 4 + (end ? 0 : (size & 0x7fffffff) + block_checksum);
    }
    if ((flags & 4) != 0) i += 4;
  }
  return false;
}

TEST_P(EveryCodec, AnyDamagedByte_IsFoundOrHarmless) {
  std::mt19937_64 random(TestSeed());
  const std::string data = MakeData(Kind::kText, 60'000, random());
  CompressOptions options;
  options.format = GetParam().format;
  options.codec = GetParam().codec;
  options.level = 3;
  options.chunk_bytes = 8192;
  options.name = "name";
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok());
  const size_t rounds = testing_util::LongTests() ? bytes->size() : 600;
  int found = 0;
  for (size_t round = 0; round < rounds; ++round) {
    const size_t at = testing_util::LongTests() ? round : random() % bytes->size();
    std::string bad = *bytes;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    const Decompressed back = DecompressText(bad);
    // A header's name, time or level says nothing of the data; a seek table is not needed.
    if (back.status.ok()) {
      // Adler-32 misses some exchanges of digits, in zlib itself as well.
      EXPECT_TRUE(back.data == data || back.report.trailing_garbage ||
                  (options.format == Format::kZlib && ReadWithZlib(bad) == back.data))
          << "byte " << at;
      continue;
    }
    ++found;
    EXPECT_TRUE(absl::IsDataLoss(back.status) || absl::IsNotFound(back.status)) << back.status;
    // gzip and zlib have one checksum, at the end; the others do not give out what is wrong.
    if (options.format == Format::kGzip || options.format == Format::kZlib) continue;
    if (options.format == Format::kBgzf && IsInBgzfHeader(*bytes, at)) continue;
    if (options.format == Format::kLz4 && (bad[at] ^ (*bytes)[at]) == '\x80' &&
        HasLz4StoredBit(*bytes, at)) {
      continue;
    }
    EXPECT_EQ(data.compare(0, back.data.size(), back.data), 0)
        << "wrong data before the damage at " << at << " was found: " << back.status;
  }
  EXPECT_GT(found, static_cast<int>(rounds / 2));
}

TEST_P(EveryCodec, Truncated_SaysSo) {
  std::mt19937_64 random(TestSeed());
  const std::string data = MakeData(Kind::kText, 60'000, random());
  CompressOptions options;
  options.format = GetParam().format;
  options.codec = GetParam().codec;
  options.level = 2;
  options.chunk_bytes = 8192;
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok());
  for (int round = 0; round < 200; ++round) {
    const size_t size = random() % bytes->size();
    const Decompressed back = DecompressText(bytes->substr(0, size), round % 2 == 0);
    if (back.status.ok()) {
      // Between BGZF's blocks or zstd's frames nothing says that more was to come.
      EXPECT_TRUE(options.format == Format::kBgzf || options.format == Format::kZstd) << size;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(back.status) || absl::IsNotFound(back.status)) << back.status;
    }
    EXPECT_EQ(data.compare(0, back.data.size(), back.data), 0);
  }
}

TEST(Compress, Gzip_IsOneMemberWithNameAndTime) {
  const std::string data = MakeData(Kind::kText, 3'000'000, TestSeed());
  CompressOptions options;
  options.name = "some name";
  options.mtime = 1234567890;
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok());
  size_t members = 0;
  EXPECT_EQ(ReadWithZlib(*bytes, &members), data);
  EXPECT_EQ(members, 1u);
  EXPECT_EQ(bytes->substr(10, 10), std::string("some name\0", 10));
  EXPECT_EQ(LoadLe32(&(*bytes)[4]), 1234567890u);
}

TEST(Compress, Primed_IsSmallerAndReadBySerialDecoders) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  for (const Format format : {Format::kGzip, Format::kZlib}) {
    for (const Codec codec : {Codec::kIsal, Codec::kZlib}) {
      CompressOptions options;
      options.format = format;
      options.codec = codec;
      options.level = 6;
      options.chunk_bytes = 64 << 10;
      const auto plain = CompressText(options, data);
      options.primed = true;
      for (const bool pipe : {false, true}) {
        const auto primed = CompressText(options, data, pipe);
        ASSERT_TRUE(plain.ok() && primed.ok());
        EXPECT_LT(primed->size(), plain->size());
        EXPECT_EQ(ReadWithZlib(*primed), data);
        const Decompressed back = DecompressText(*primed);
        ASSERT_TRUE(back.status.ok()) << back.status;
        EXPECT_EQ(back.data, data);
        EXPECT_EQ(back.report.parallel_members, 0u);
      }
    }
  }
}

TEST(Compress, Deterministic_WritesNoNameAndUsesPortableCodecs) {
  const std::string data = MakeData(Kind::kText, 300'000, TestSeed());
  for (const Format format : kAllFormats) {
    CompressOptions options;
    options.format = format;
    options.deterministic = true;
    const auto expected = CompressText(options, data);
    ASSERT_TRUE(expected.ok());
    options.name = "name";
    options.mtime = 77;
    options.processors.host_cpus = {0};
    const auto again = CompressText(options, data, true);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *expected);
  }
  CompressOptions options;
  options.deterministic = true;
  options.codec = Codec::kIsal;
  EXPECT_TRUE(absl::IsInvalidArgument(CompressText(options, data).status()));
}

TEST(Compress, IsalLevel1_SpendsTimeOnlyOnWhatShrinksToAHalfOrSo) {
  std::string log;
  for (int i = 0; log.size() < 1'000'000; ++i) {
    log += absl::StrCat("2026-11-27 12:00:00 INFO request ", i * 7919 % 10007, " served\n");
  }
  const std::string prose = MakeData(Kind::kText, 1'000'000, 7);  // whose sample shrinks to 38 %
  const auto size_of = [](const std::string& data, int level) {
    CompressOptions options;
    options.codec = Codec::kIsal;
    options.level = level;
    const auto bytes = CompressText(options, data);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? bytes->size() : 0;
  };
  EXPECT_EQ(size_of(prose, 1), size_of(prose, 3));
  EXPECT_NE(size_of(log, 1), size_of(log, 3));
}

TEST(Compress, OptionsThatDoNotGoTogether_AreRefusedByName) {
  CompressOptions options;
  options.codec = Codec::kZstd;
  EXPECT_NE(Text(CompressText(options, "x").status()).find("zstd"), std::string::npos);
  options = {};
  options.format = Format::kZstd;
  options.primed = true;
  EXPECT_NE(Text(CompressText(options, "x").status()).find("zstd"), std::string::npos);
  options = {};
  options.codec = Codec::kLibdeflate;
  options.primed = true;
  EXPECT_NE(Text(CompressText(options, "x").status()).find("libdeflate"), std::string::npos);
  options = {};
  options.codec = Codec::kIsal;
  options.level = 9;
  EXPECT_NE(Text(CompressText(options, "x").status()).find("isal"), std::string::npos);
  options = {};
  options.processors.placement = *Placement::Parse("agent");
  EXPECT_NE(Text(CompressText(options, "x").status()).find("--agent-cpus"), std::string::npos);
}

TEST(Compress, FullOutput_IsAnError) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full.valid()) GTEST_SKIP() << "no /dev/full";
  const UniqueFd in = MemoryFile(MakeData(Kind::kRandom, 3'000'000, TestSeed()));
  const auto stats = Compress({}, in.get(), "IN", full.get(), "OUT");
  ASSERT_FALSE(stats.ok());
  EXPECT_NE(Text(stats.status()).find("OUT"), std::string::npos);
}

TEST(Compress, FileThatShrinks_IsAnError) {
  const UniqueFd in = MemoryFile(MakeData(Kind::kRandom, 3'000'000, TestSeed()));
  // Nobody reads: the first chunks' results fill the pipe, and the file shrinks meanwhile.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  CompressOptions options;
  options.chunk_bytes = 64 << 10;
  absl::Status status;
  std::thread compressing(
      [&] { status = Compress(options, in.get(), "IN", to.get(), "OUT").status(); });
  // A chunk has been written, and not all: the pipe is smaller.
  char byte;
  ASSERT_EQ(read(from.get(), &byte, 1), 1);
  ASSERT_EQ(ftruncate(in.get(), 1000), 0);
  std::string rest(1 << 16, '\0');
  std::thread reading([&] {
    while (read(from.get(), rest.data(), rest.size()) > 0) {
    }
  });
  compressing.join();
  to.reset();
  reading.join();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(Text(status).find("shorter"), std::string::npos);
}

TEST(Decompress, ForeignStreams_AreRead) {
  std::mt19937_64 random(TestSeed());
  for (const size_t size : {0, 1, 1000, 70'000, 3'000'000}) {
    const std::string data = MakeData(Kind::kMixed, size, random());
    for (const int level : {0, 1, 6, 9}) {
      for (const int bits : {15 + 16, 15, 9}) {
        const std::string bytes = ForeignGzip(data, level, bits);
        const Decompressed back = DecompressText(bytes, random() % 2 == 0);
        ASSERT_TRUE(back.status.ok()) << back.status << ", bits " << bits;
        EXPECT_EQ(back.data, data);
      }
    }
  }
}

TEST(Decompress, ForeignZstdAndLz4_AreRead) {
  const std::string data = MakeData(Kind::kMixed, 3'000'000, TestSeed());
  // As a stream, whose frame does not say its size.
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  std::string bytes(ZSTD_compressBound(data.size()), '\0');
  ZSTD_outBuffer to{bytes.data(), bytes.size(), 0};
  ZSTD_inBuffer from{data.data(), data.size() / 2, 0};
  ZSTD_compressStream2(zstd, &to, &from, ZSTD_e_flush);
  from.size = data.size();
  EXPECT_EQ(ZSTD_compressStream2(zstd, &to, &from, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(zstd);
  bytes.resize(to.pos);
  Decompressed back = DecompressText(bytes);
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.data, data);
  EXPECT_EQ(back.report.parallel_members, 0u);
  back = DecompressText(bytes.substr(0, bytes.size() - 1000));
  EXPECT_TRUE(absl::IsDataLoss(back.status)) << back.status;

  for (const bool linked : {false, true}) {
    LZ4F_preferences_t preferences{};
    preferences.frameInfo.blockMode = linked ? LZ4F_blockLinked : LZ4F_blockIndependent;
    preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    bytes.assign(LZ4F_compressFrameBound(data.size(), &preferences), '\0');
    bytes.resize(
        LZ4F_compressFrame(bytes.data(), bytes.size(), data.data(), data.size(), &preferences));
    back = DecompressText(bytes);
    ASSERT_TRUE(back.status.ok()) << back.status;
    EXPECT_EQ(back.data, data);
    EXPECT_EQ(back.report.parallel_members, linked ? 0u : 1u);
    std::string bad = bytes;
    bad[bad.size() - 1] = static_cast<char>(bad[bad.size() - 1] ^ 1);  // the content's checksum
    EXPECT_TRUE(absl::IsDataLoss(DecompressText(bad).status));
  }
}

TEST(Decompress, Concatenated_AreAllRead) {
  const std::string data = MakeData(Kind::kText, 100'000, TestSeed());
  CompressOptions options;
  options.chunk_bytes = 16 << 10;
  const std::string ours = *CompressText(options, data);
  options.format = Format::kBgzf;
  const std::string bgzf = *CompressText(options, data);
  options.format = Format::kZstd;
  const std::string zstd = *CompressText(options, data);
  options.format = Format::kLz4;
  const std::string lz4 = *CompressText(options, data);
  const std::string foreign = ForeignGzip(data);
  const std::string many = foreign + ours + foreign + bgzf + ours + zstd + lz4 + foreign + foreign;
  for (const bool pipe : {false, true}) {
    const Decompressed back = DecompressText(many, pipe);
    ASSERT_TRUE(back.status.ok()) << back.status;
    std::string expected;
    for (int i = 0; i < 9; ++i) expected += data;
    EXPECT_EQ(back.data, expected);
  }
}

TEST(Decompress, MembersOfSeveralKinds_AreReportedByDecoder) {
  std::string bytes;
  for (const Format format : {Format::kGzip, Format::kZstd, Format::kGzip}) {
    CompressOptions options;
    options.format = format;
    options.chunk_bytes = 64 << 10;
    bytes += *CompressText(options, MakeData(Kind::kText, 300'000, 1));
  }
  const Decompressed back = DecompressText(bytes);
  ASSERT_TRUE(back.status.ok()) << back.status;
  ASSERT_EQ(back.report.queues.size(), 2U);
  EXPECT_EQ(back.report.queues.at("libdeflate").output_bytes, 600'000U);
  EXPECT_EQ(back.report.queues.at("zstd").output_bytes, 300'000U);
  EXPECT_NE(
      back.report.Explain().find("3 members, 3 of them in parallel, 900000 bytes; libdeflate: "),
      std::string::npos)
      << back.report.Explain();
}

TEST(Decompress, TrailingBytes_AreTreatedAsGzipDoes) {
  const std::string data = MakeData(Kind::kText, 100'000, TestSeed());
  for (const std::string& bytes : {ForeignGzip(data), *CompressText({}, data)}) {
    Decompressed back = DecompressText(bytes + std::string(100'000, '\0'));
    ASSERT_TRUE(back.status.ok()) << back.status;
    EXPECT_FALSE(back.report.trailing_garbage);
    back = DecompressText(bytes + "something else");
    ASSERT_TRUE(back.status.ok()) << back.status;
    EXPECT_TRUE(back.report.trailing_garbage);
    EXPECT_EQ(back.report.garbage_offset, bytes.size());
    EXPECT_EQ(back.data, data);
  }
}

TEST(Decompress, OtherInput_IsRefused) {
  EXPECT_TRUE(absl::IsNotFound(DecompressText("plain text that nobody compressed").status));
  EXPECT_TRUE(absl::IsDataLoss(DecompressText("").status));
  EXPECT_TRUE(absl::IsDataLoss(DecompressText("\x1f\x8b\x08").status));
}

TEST(Decompress, Damage_SaysItsOffset) {
  const std::string data = MakeData(Kind::kText, 100'000, TestSeed());
  std::string bytes = ForeignGzip(data);
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 1);  // the CRC
  Decompressed back = DecompressText(bytes);
  EXPECT_NE(Text(back.status).find("IN is damaged at offset " + std::to_string(bytes.size() - 8)),
            std::string::npos)
      << back.status;
  EXPECT_EQ(back.data, data);
  CompressOptions options;
  options.chunk_bytes = 16 << 10;
  bytes = *CompressText(options, data);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0xFF);
  back = DecompressText(bytes);
  EXPECT_NE(Text(back.status).find("IN is damaged at offset "), std::string::npos) << back.status;
}

TEST(Decompress, Limit_StopsBombs) {
  std::string data;
  data.resize(20'000'000);
  DecompressOptions options;
  options.max_output = 1'000'000;
  for (const Format format : kAllFormats) {
    CompressOptions how;
    how.format = format;
    const auto bytes = CompressText(how, data);
    ASSERT_TRUE(bytes.ok());
    const Decompressed back = DecompressText(*bytes, false, options);
    EXPECT_TRUE(absl::IsResourceExhausted(back.status)) << back.status;
    EXPECT_LE(back.data.size(), options.max_output);
  }
  const Decompressed back = DecompressText(ForeignGzip(data), false, options);
  EXPECT_TRUE(absl::IsResourceExhausted(back.status)) << back.status;
  EXPECT_LE(back.data.size(), options.max_output);
}

TEST(Decompress, StreamThatGoesOnWithoutMarks_IsReadToItsEnd) {
  // One member: a chunk of ours, then blocks that refer to it.
  const std::string data = MakeData(Kind::kText, 200'000, TestSeed());
  const std::string first = data.substr(0, 100'000);
  CompressOptions options;
  const std::string ours = *CompressText(options, first);
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  const std::string window = first.substr(first.size() - kDeflateWindow);
  deflateSetDictionary(&stream, reinterpret_cast<const Bytef*>(window.data()),
                       static_cast<uInt>(window.size()));
  const std::string second = window + data.substr(100'000);
  std::string blocks(second.size() * 2, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(second.data()));
  stream.avail_in = static_cast<uInt>(second.size());
  stream.next_out = reinterpret_cast<Bytef*>(blocks.data());
  stream.avail_out = static_cast<uInt>(blocks.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  blocks.resize(stream.total_out);
  deflateEnd(&stream);
  const std::string all = first + second;
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(all.data()), static_cast<uInt>(all.size())));
  const std::string bytes =
      ours.substr(0, ours.size() - 10) + blocks + WriteGzipTrailer(crc, all.size());
  ASSERT_EQ(ReadWithZlib(bytes), all);
  const Decompressed back = DecompressText(bytes);
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.data, all);
}

TEST(ChunkMark, AnyLength_IsReadBackAndSkippedByZlib) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 2000; ++round) {
    const uint64_t length = random() % kMarkLimit >> random() % 24;
    const std::string mark = ChunkMark(length);
    EXPECT_LE(mark.size(), kMarkRoom);
    const auto read = ReadMark(mark + std::string(random() % 8, 'x'));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->size, mark.size());
    EXPECT_EQ(read->length, length);
    EXPECT_FALSE(ReadMark(mark.substr(0, random() % mark.size())).has_value());
    const std::string stream =
        WriteZlibHeader(6) + mark + std::string(kDeflateEnd) + WriteZlibTrailer(1);
    EXPECT_EQ(ReadWithZlib(stream), "");
  }
}

TEST(GzipHeader, EveryField_IsSkipped) {
  const std::string data = "content";
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  gz_header header{};
  std::string extra(30'000, 'e');
  std::string name(70'000, 'n');
  std::string comment(70'000, 'c');
  header.extra = reinterpret_cast<Bytef*>(extra.data());
  header.extra_len = static_cast<uInt>(extra.size());
  header.name = reinterpret_cast<Bytef*>(name.data());
  header.comment = reinterpret_cast<Bytef*>(comment.data());
  header.hcrc = 1;
  ASSERT_EQ(deflateSetHeader(&stream, &header), Z_OK);
  std::string bytes(300'000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  const Decompressed back = DecompressText(bytes);
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.data, data);
  bytes[100] = 'X';  // the header's own checksum
  EXPECT_TRUE(absl::IsDataLoss(DecompressText(bytes).status));
}

TEST(Format, Names_AreParsedAndSuffixesRemoved) {
  for (const Format format : kAllFormats) {
    EXPECT_EQ(*ParseFormat(FormatName(format)), format);
    EXPECT_EQ(*NameWithoutSuffix("a/b" + std::string(FormatSuffix(format))), "a/b");
  }
  EXPECT_FALSE(ParseFormat("rar").ok());
  EXPECT_EQ(*NameWithoutSuffix("x.tgz"), "x.tar");
  EXPECT_FALSE(NameWithoutSuffix("x.txt").ok());
  EXPECT_FALSE(NameWithoutSuffix("a/.gz").ok());
}

}  // namespace
}  // namespace pulse::ops
