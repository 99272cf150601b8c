// What marks cost, as `pulse compress -v` says it.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

TEST(MarkBytes, OfAStream_AreThoseThatItsReaderFinds) {
  const std::string data = MakeData(Kind::kText, 700'000, TestSeed());
  for (const Format format : {Format::kGzip, Format::kZlib}) {
    CompressOptions options;
    options.format = format;
    options.chunk_bytes = 64 << 10;
    QueueStats stats;
    const auto bytes = CompressText(options, data, false, &stats);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    size_t at = format == Format::kGzip ? GzipHeaderSize(*bytes).value() : 2;
    uint64_t found = 0;
    uint64_t chunks = 0;
    while (const auto mark = ReadMark(absl::string_view(*bytes).substr(at))) {
      // A primed stream has the first mark, too.
      if (chunks > 0) found += mark->size;
      at += mark->size + mark->length;
      ++chunks;
    }
    EXPECT_EQ(chunks, (data.size() + options.chunk_bytes - 1) / options.chunk_bytes);
    EXPECT_EQ(stats.mark_bytes, found) << FormatName(format);
    EXPECT_NE(stats.Explain().find(absl::StrCat("of the output ", found, " bytes (")),
              std::string::npos)
        << stats.Explain();

    options.primed = true;
    QueueStats without;
    ASSERT_TRUE(CompressText(options, data, false, &without).ok());
    EXPECT_EQ(without.mark_bytes, 0U);
  }
}

TEST(MarkBytes, FormatsWithoutMarks_HaveNone) {
  const std::string data = MakeData(Kind::kText, 700'000, TestSeed());
  for (const Format format : {Format::kBgzf, Format::kZstd, Format::kLz4}) {
    CompressOptions options;
    options.format = format;
    QueueStats stats;
    ASSERT_TRUE(CompressText(options, data, false, &stats).ok());
    EXPECT_EQ(stats.mark_bytes, 0U);
    EXPECT_EQ(stats.Explain().find("marks"), std::string::npos);
  }
}

}  // namespace
}  // namespace pulse::ops
