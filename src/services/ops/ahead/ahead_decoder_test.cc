#include "services/ops/ahead/ahead_decoder.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>

#include "base/testing.h"
#include "services/ops/ahead/test_deflate.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::Eventually;
using testing_util::LongTests;
using testing_util::TestSeed;

constexpr uint64_t kSmallStretch = 16 << 10;

// Gives few bytes at a time, so that small inputs are many pieces.
class SmallReads : public ByteSource {
 public:
  explicit SmallReads(absl::string_view bytes) : rest_(bytes), random_(TestSeed()) {}
  absl::StatusOr<size_t> Read(void* to, size_t size) override {
    const size_t n = std::min<size_t>({size, rest_.size(), 1 + random_() % 6000});
    if (n > 0) std::memcpy(to, rest_.data(), n);
    rest_.remove_prefix(n);
    return n;
  }

 private:
  absl::string_view rest_;
  std::mt19937_64 random_;
};

AheadDecoder::Options Small(size_t workers, uint64_t stretch = kSmallStretch) {
  AheadDecoder::Options options;
  options.workers = workers;
  options.stretch = stretch;
  options.least_cpu_share = 0;  // whatever else the machine does
  return options;
}

struct Inflated {
  absl::Status status;
  std::string data;
  uint32_t crc = 0;
  uint64_t offset = 0;  // of the input, behind it or of the damage
  uint64_t taken = 0;   // data that were decoded ahead
};

// A raw stream, with others that decode ahead or without.
Inflated Inflate(const std::string& bytes, std::optional<AheadDecoder::Options> options,
                 uint64_t limit = 0) {
  SmallReads source(bytes);
  InputReader reader(source, "IN");
  reader.StartAhead();
  Buffer to;
  BufferSink sink(&to);
  OutputWriter writer(sink, "OUT", limit);
  writer.StartCheck(OutputWriter::Check::kCrc32, 0);
  std::optional<AheadDecoder> ahead;
  if (options.has_value()) ahead.emplace(*options);
  Inflated result;
  result.status = InflateInOrder(reader, writer, {}, ahead.has_value() ? &*ahead : nullptr);
  const absl::Status flushed = writer.Flush();
  if (result.status.ok()) result.status = flushed;
  result.data = std::string(to.view());
  result.crc = writer.checksum();
  result.offset = reader.offset();
  if (ahead.has_value()) result.taken = ahead->taken();
  return result;
}

void ExpectSame(const Inflated& a, const Inflated& b) {
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.crc, b.crc);
  ASSERT_EQ(a.data.size(), b.data.size());
  EXPECT_TRUE(a.data == b.data);
}

TEST(AheadDecoder, Stretch_HasTheDataFromItsBeginToItsEnd) {
  const std::string whole = MakeData(Kind::kText, 3'000'000, TestSeed());
  const std::string bytes = Deflate({Encoder::Library::kZlib, 6, 0, 2}, whole);
  std::map<uint64_t, uint64_t> data_at;
  for (const BlockPlace& block : BlocksOf(bytes)) data_at[block.bit] = block.data;
  SmallReads source(bytes);
  InputReader reader(source, "IN");
  reader.StartAhead();
  AheadDecoder decoder(Small(3));
  std::optional<AheadData> ahead;
  uint64_t begin = 0;
  ASSERT_TRUE(Eventually([&] {
    decoder.Continue(reader, kSmallStretch);
    const auto next = decoder.NextBegin(0);
    if (!next.has_value()) return false;
    begin = *next;
    ahead = decoder.Take(begin);
    return ahead.has_value();
  }));
  ASSERT_EQ(data_at.count(begin), 1u);
  ASSERT_EQ(data_at.count(ahead->end_bit), 1u);
  const uint64_t from = data_at[begin];
  const uint64_t to = data_at[ahead->end_bit];
  ASSERT_GT(to, from);
  ASSERT_GE(from, kDeflateWindow);
  uint32_t checksum = 0;
  const OutputWriter::Late late = decoder.Resolve(
      *ahead, absl::string_view(whole).substr(from - kDeflateWindow, kDeflateWindow),
      OutputWriter::Check::kCrc32);
  const absl::string_view want = absl::string_view(whole).substr(from, to - from);
  EXPECT_EQ(late(OutputWriter::Check::kCrc32, checksum), want);
  EXPECT_EQ(checksum, crc32_z(0, reinterpret_cast<const Bytef*>(want.data()), want.size()));
}

TEST(AheadDecoder, StreamsOfEachEncoder_AreDecodedAsWithoutIt) {
  std::mt19937_64 random(TestSeed());
  for (const Kind kind : {Kind::kText, Kind::kMixed, Kind::kRandom, Kind::kZeros}) {
    const std::string whole = MakeData(kind, 700'000 + random() % 700'000, TestSeed());
    for (const Encoder& encoder : Encoders()) {
      if (!LongTests() && random() % 3 != 0) continue;
      SCOPED_TRACE(Describe(encoder));
      const std::string bytes = Deflate(encoder, whole) + "what follows";
      const Inflated got = Inflate(bytes, Small(1 + random() % 4, 4096 << random() % 6));
      ASSERT_TRUE(got.status.ok()) << got.status;
      ASSERT_TRUE(got.data == whole);
      EXPECT_EQ(got.offset, bytes.size() - 12);
      EXPECT_EQ(got.crc, crc32_z(0, reinterpret_cast<const Bytef*>(whole.data()), whole.size()));
    }
  }
}

TEST(AheadDecoder, LongStream_IsDecodedAheadInParts) {
  const std::string whole = MakeData(Kind::kText, 6'000'000, TestSeed());
  const std::string bytes = Deflate({Encoder::Library::kZlib, 6, 0, 3}, whole);
  EXPECT_TRUE(Eventually([&] {
    const Inflated got = Inflate(bytes, Small(3));
    EXPECT_TRUE(got.status.ok() && got.data == whole);
    return got.taken > 0;
  }));
}

TEST(AheadDecoder, BusyMachine_GetsFewStretches) {
  const std::string whole = MakeData(Kind::kText, 6'000'000, TestSeed());
  const std::string bytes = Deflate({Encoder::Library::kZlib, 6, 0, 3}, whole);
  AheadDecoder::Options busy = Small(1);
  busy.least_cpu_share = 1000;  // more than a worker can have
  const Inflated got = Inflate(bytes, busy);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_TRUE(got.data == whole);
  // Behind each there are four times as many that nobody takes.
  EXPECT_LT(got.taken, whole.size() / 8);
}

TEST(AheadDecoder, SizesAroundStretches_AreDecoded) {
  std::mt19937_64 random(TestSeed());
  const std::string whole = MakeData(Kind::kText, 2'000'000, TestSeed());
  for (int i = 0; i < (LongTests() ? 300 : 30); ++i) {
    const std::string part = whole.substr(0, 30'000 + random() % 1'900'000);
    const std::string bytes = Deflate({Encoder::Library::kZlib, 1, 0, 1 + i % 9}, part);
    const Inflated got = Inflate(bytes, Small(2, 8192));
    ASSERT_TRUE(got.status.ok()) << got.status;
    ASSERT_TRUE(got.data == part);
    EXPECT_EQ(got.offset, bytes.size());
  }
}

TEST(AheadDecoder, DamageAnywhere_GivesTheResultOfSerialDecoding) {
  std::mt19937_64 random(TestSeed());
  const std::string whole = MakeData(Kind::kText, 2'500'000, TestSeed());
  const std::vector<std::string> streams = {
      Deflate({Encoder::Library::kZlib, 6, 0, 3}, whole),
      Deflate({Encoder::Library::kIsal, 1, 0, 0}, whole),
      Deflate({Encoder::Library::kZlib, 6, 0, 8}, MakeData(Kind::kMixed, 2'500'000, TestSeed()))};
  for (int i = 0; i < (LongTests() ? 1000 : 100); ++i) {
    std::string bytes = streams[static_cast<size_t>(i) % streams.size()];
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    SCOPED_TRACE(i);
    ExpectSame(Inflate(bytes, Small(1 + random() % 3)), Inflate(bytes, std::nullopt));
    if (HasFailure()) return;
  }
}

// Blocks within stored data look like blocks of the stream, with the right distances between them.
TEST(AheadDecoder, CompressedDataThatAreStored_AreNotTakenForBlocks) {
  const std::string inner =
      Deflate({Encoder::Library::kZlib, 6, 0, 2}, MakeData(Kind::kText, 4'000'000, TestSeed()));
  const std::string bytes = Deflate({Encoder::Library::kZlib, 0, 0, 8}, inner);
  const Inflated got = Inflate(bytes, Small(3));
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_TRUE(got.data == inner);
  // And between text that is compressed.
  const std::string text = MakeData(Kind::kText, 1'000'000, TestSeed() + 1);
  const std::string mixed = text + inner + text + inner.substr(0, 100'000) + text;
  const Inflated both = Inflate(Deflate({}, mixed), Small(3));
  ASSERT_TRUE(both.status.ok()) << both.status;
  EXPECT_TRUE(both.data == mixed);
}

TEST(AheadDecoder, DecompressionBomb_EndsAtTheLimit) {
  const std::string bytes = Deflate({}, std::string(size_t{200} << 20, '\0'));
  const Inflated got = Inflate(bytes, Small(3, 4096), 5 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(got.status)) << got.status;
  EXPECT_LE(got.data.size(), size_t{5} << 20);
}

TEST(AheadDecoder, MembersOneAfterTheOther_AreDecodedAsOneByOne) {
  std::mt19937_64 random(TestSeed());
  for (const bool pipe : {false, true}) {
    std::string bytes;
    std::string whole;
    for (int i = 0; i < 6; ++i) {
      const std::string data = MakeData(Kind::kMixed, 1 + random() % 9'000'000, random());
      bytes += Gzip({Encoder::Library::kZlib, 1 + i, 0, 8}, data);
      whole += data;
    }
    const Decompressed got = DecompressText(bytes + "garbage", pipe);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_TRUE(got.data == whole);
    EXPECT_EQ(got.report.members, 6u);
    EXPECT_EQ(got.report.garbage_offset, bytes.size());
  }
}

TEST(AheadDecoder, WrongChecksumOfALongMember_IsReportedAtTheTrailer) {
  const std::string whole = MakeData(Kind::kText, 20'000'000, TestSeed());
  std::string bytes = Gzip({}, whole);
  bytes[bytes.size() - 5] ^= 1;
  const Decompressed got = DecompressText(bytes);
  EXPECT_TRUE(absl::IsDataLoss(got.status)) << got.status;
  EXPECT_EQ(DamageOffset(got.status), bytes.size() - 8);
  EXPECT_TRUE(got.data == whole);
}

TEST(AheadDecoder, ZlibStream_HasItsAdler32) {
  const std::string whole = MakeData(Kind::kText, 20'000'000, TestSeed());
  std::string bytes("\x78\x9c", 2);
  bytes += Deflate({}, whole);
  const auto sum = static_cast<uint32_t>(
      adler32_z(1, reinterpret_cast<const Bytef*>(whole.data()), whole.size()));
  AppendLe(bytes, __builtin_bswap32(sum), 4);
  const Decompressed got = DecompressText(bytes);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_TRUE(got.data == whole);
}

}  // namespace
}  // namespace pulse::ops
