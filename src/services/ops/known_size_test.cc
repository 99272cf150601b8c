// What decompression knows of how much is left, by which its queue shares the last chunks.
#include <gtest/gtest.h>

#include <string>

#include "base/testing.h"
#include "services/ops/byte_stream.h"
#include "services/ops/file_io.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

TEST(KnownSize, Decompress_OfAFile_TellsTheQueueWhatIsLeft) {
  const std::string data = MakeData(Kind::kText, 500'000, TestSeed());
  for (const Format format : kAllFormats) {
    CompressOptions options;
    options.format = format;
    options.chunk_bytes = 64 << 10;
    const auto bytes = CompressText(options, data);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const Decompressed file = DecompressText(*bytes);
    ASSERT_TRUE(file.status.ok()) << file.status;
    ASSERT_EQ(file.report.queues.size(), 1U);
    const auto& [decoder, queue] = *file.report.queues.begin();
    ASSERT_TRUE(queue.total_bytes.has_value()) << FormatName(format);
    // Without the member's header, and with its end.
    EXPECT_LE(*queue.total_bytes, bytes->size()) << FormatName(format);
    EXPECT_GE(*queue.total_bytes, bytes->size() - 64) << FormatName(format);

    const Decompressed pipe = DecompressText(*bytes, true);
    ASSERT_TRUE(pipe.status.ok()) << pipe.status;
    EXPECT_FALSE(pipe.report.queues.begin()->second.total_bytes.has_value());
  }
}

TEST(KnownSize, Reader_OfAFileFromItsMiddle_CountsWhatFollows) {
  const UniqueFd fd = MemoryFile(std::string(1'000'000, 'x'));
  ASSERT_EQ(lseek(fd.get(), 400'000, SEEK_SET), 400'000);
  FdSource source(fd.get(), "IN");
  EXPECT_EQ(source.Left(), 600'000U);
  InputReader reader(source, "IN");
  EXPECT_EQ(reader.Left(), 600'000U);
  ASSERT_TRUE(reader.Peek(1000).ok());  // reads more than it consumes
  EXPECT_EQ(reader.Left(), 600'000U);
  reader.Consume(1000);
  EXPECT_EQ(reader.Left(), 599'000U);
  reader.Unread(10);
  EXPECT_EQ(reader.Left(), 599'010U);
  Buffer rest;
  ASSERT_TRUE(reader.ReadInto(rest, 1'000'000).ok());
  EXPECT_EQ(reader.Left(), 0U);

  const Input pipe("abc", true);
  FdSource unknown(pipe.fd(), "IN");
  EXPECT_FALSE(unknown.Left().has_value());
  EXPECT_FALSE(InputReader(unknown, "IN").Left().has_value());
}

}  // namespace
}  // namespace pulse::ops
