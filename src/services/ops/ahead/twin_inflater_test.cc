#include "services/ops/ahead/twin_inflater.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/testing.h"
#include "services/ops/ahead/isal_position.h"
#include "services/ops/ahead/test_deflate.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;
using State = TwinInflater::State;

constexpr size_t kMost = size_t{64} << 20;

// Decodes [begin, end) of a stream, in steps; kMore at `end`.
State Decode(const std::string& bytes, uint64_t begin, uint64_t end, size_t step, TwinData& to,
             TwinInflater& inflater, size_t most = kMost) {
  inflater.Begin(begin, static_cast<uint8_t>(bytes[begin / 8]), most, to);
  State state = State::kMore;
  for (size_t at = FirstByteFed(begin); at < FirstByteFed(end) && state == State::kMore;) {
    const size_t n = std::min(step, FirstByteFed(end) - at);
    state = inflater.Feed(absl::string_view(bytes).substr(at, n));
    at += n;
  }
  return state;
}

TEST(TwinInflater, BlocksOfEachEncoderFromEachPlace_GiveTheirDataWithTheirWindow) {
  std::mt19937_64 random(TestSeed());
  TwinInflater inflater;
  TwinData data;
  Buffer behind;
  size_t ranges = 0;
  for (const Kind kind : {Kind::kText, Kind::kMixed, Kind::kRandom, Kind::kZeros}) {
    const std::string whole = MakeData(kind, 400'000, TestSeed());
    const absl::string_view text(whole);
    for (const Encoder& encoder : Encoders()) {
      const std::string bytes = Deflate(encoder, whole);
      const std::vector<BlockPlace> blocks = BlocksOf(bytes);
      for (int i = 0; i < 8; ++i) {
        const BlockPlace& begin = blocks[random() % (blocks.size() - 1)];
        if (begin.data < kDeflateWindow) continue;
        const auto first = static_cast<size_t>(&begin - blocks.data());
        const BlockPlace& end = blocks[first + 1 + random() % (blocks.size() - 1 - first)];
        const bool last = &end == &blocks.back();
        const size_t step = 1 + random() % 50'000;
        const State state = Decode(bytes, begin.bit, end.bit, step, data, inflater);
        SCOPED_TRACE(Describe(encoder));
        if (last) {
          ASSERT_EQ(state, State::kFinal);
          EXPECT_EQ(inflater.End(), bytes.size());
        } else {
          ASSERT_EQ(state, State::kMore);
          // A header of a few bits may have been taken together with the end of the block.
          EXPECT_TRUE(!end.dynamic || inflater.IsAt(end.bit));
        }
        const absl::string_view window = text.substr(begin.data - kDeflateWindow, kDeflateWindow);
        data.WindowBehind(window, behind);
        data.Resolve(window);
        ASSERT_EQ(data.data.view(), text.substr(begin.data, end.data - begin.data));
        EXPECT_EQ(behind.view(), text.substr(end.data - kDeflateWindow, kDeflateWindow));
        ++ranges;
      }
    }
  }
  EXPECT_GT(ranges, 50u);
}

TEST(TwinInflater, ReferencesToEveryByteOfTheWindow_AreResolved) {
  // A stream whose second part is the first 32 KiB again, so that it is references to them only.
  std::string window(kDeflateWindow, '\0');
  std::mt19937_64 random(TestSeed());
  for (char& c : window) c = static_cast<char>(random());
  std::string bytes(100'000, '\0');
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  // zlib looks back by 262 bytes less than the window.
  const std::string again = window.substr(262) + window.substr(0, 262);
  deflateSetDictionary(&stream, reinterpret_cast<const Bytef*>(window.data()),
                       static_cast<uInt>(window.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(again.data()));
  stream.avail_in = static_cast<uInt>(again.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(bytes.size() - stream.avail_out);
  deflateEnd(&stream);
  TwinInflater inflater;
  TwinData data;
  ASSERT_EQ(Decode(bytes, 0, 8 * bytes.size(), 1000, data, inflater), State::kFinal);
  data.Resolve(window);
  EXPECT_EQ(data.data.view(), again);
}

TEST(TwinInflater, DataWithoutReferencesForAWindow_NeedOneRunOnly) {
  const std::string whole = MakeData(Kind::kRandom, 400'000, TestSeed());
  const std::string bytes = Deflate({Encoder::Library::kZlib, 6, Z_HUFFMAN_ONLY, 8}, whole);
  TwinInflater inflater;
  TwinData data;
  ASSERT_EQ(Decode(bytes, 0, 8 * bytes.size(), 40'000, data, inflater), State::kFinal);
  EXPECT_LT(data.twin.size(), 120'000u);
  data.Resolve(std::string(kDeflateWindow, 'x'));
  EXPECT_EQ(data.data.view(), whole);
}

TEST(TwinInflater, MoreDataThanAllowed_IsAFailure) {
  const std::string bytes = Deflate({}, std::string(size_t{100} << 20, '\0'));
  TwinInflater inflater;
  TwinData data;
  EXPECT_EQ(Decode(bytes, 0, 8 * bytes.size(), 1000, data, inflater, size_t{4} << 20),
            State::kFailed);
  EXPECT_LE(data.data.size(), size_t{8} << 20);
}

TEST(TwinInflater, DamagedStreams_NeverPassForMore) {
  std::mt19937_64 random(TestSeed());
  const std::string whole = MakeData(Kind::kText, 300'000, TestSeed());
  const std::string good = Deflate({Encoder::Library::kZlib, 6, 0, 4}, whole);
  TwinInflater inflater;
  TwinData data;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    Decode(bytes, random() % (8 * bytes.size() - 64), 8 * bytes.size(), 5000, data, inflater);
    EXPECT_LE(data.twin.size(), data.data.size() + kMost);
    if (data.twin.size() <= data.data.size()) data.Resolve(std::string(kDeflateWindow, 'x'));
  }
}

}  // namespace
}  // namespace pulse::ops
