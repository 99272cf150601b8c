// Indexes of foreign gzip files: the second pass gives what the first gave, on all processors and
// from any place; an index that is damaged, or of another file, is never believed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_calls.h"
#include "base/testing.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/format.h"
#include "services/ops/index/gzip_index.h"
#include "services/ops/index/index_builder.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_util::TestSeed;

std::string ByZlib(const std::string& data, int level, int strategy = Z_DEFAULT_STRATEGY) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, strategy), Z_OK);
  std::string out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string ByLibdeflate(const std::string& data, int level) {
  libdeflate_compressor* c = libdeflate_alloc_compressor(level);
  std::string out(libdeflate_gzip_compress_bound(c, data.size()), '\0');
  out.resize(libdeflate_gzip_compress(c, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(c);
  return out;
}

std::string ByIsal(const std::string& data) {
  isal_zstream stream;
  isal_deflate_init(&stream);
  std::string level_buffer(ISAL_DEF_LVL1_DEFAULT, '\0');
  stream.level = 1;
  stream.level_buf = reinterpret_cast<uint8_t*>(level_buffer.data());
  stream.level_buf_size = static_cast<uint32_t>(level_buffer.size());
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  std::string out(data.size() + data.size() / 8 + 4096, '\0');
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uint32_t>(data.size());
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<uint32_t>(out.size());
  EXPECT_EQ(isal_deflate(&stream), COMP_OK);
  out.erase(stream.total_out);
  return out;
}

class IndexTest : public testing::Test {
 protected:
  void Store(const std::string& bytes) {
    UniqueFd fd(open(file_.get().c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_EQ(WriteAll(fd.get(), bytes, "writing", file_.get()), absl::OkStatus());
  }
  Decompressed Pass(std::optional<DataRange> range = std::nullopt, uint64_t max_output = 0) {
    return PassWith(index_.get(), range, max_output);
  }
  Decompressed PassWith(const std::string& index, std::optional<DataRange> range = std::nullopt,
                        uint64_t max_output = 0) {
    const UniqueFd in(open(file_.get().c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd out = MemoryFile("");
    DecompressOptions options;
    options.index = index;
    options.range = range;
    options.max_output = max_output;
    auto report = Decompress(options, in.get(), "IN", out.get(), "OUT");
    Decompressed result;
    result.status = report.status();
    if (report.ok()) result.report = *std::move(report);
    result.data = ContentOf(out);
    return result;
  }
  std::string ReadIndex() const {
    const UniqueFd fd(open(index_.get().c_str(), O_RDONLY | O_CLOEXEC));
    return fd.valid() ? ContentOf(fd) : "";
  }
  void WriteIndex(const std::string& bytes) {
    UniqueFd fd(open(index_.get().c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_EQ(WriteAll(fd.get(), bytes, "writing", index_.get()), absl::OkStatus());
  }
  // Two passes, and some ranges.
  void Check(const std::string& bytes, const std::string& data, size_t least_segments) {
    Store(bytes);
    unlink(index_.get().c_str());
    const Decompressed first = Pass();
    ASSERT_EQ(first.status, absl::OkStatus());
    EXPECT_THAT(first.report.remarks, IsEmpty());
    EXPECT_FALSE(first.report.by_index);
    EXPECT_TRUE(first.data == data);
    const auto index = DecodeIndex(ReadIndex());
    ASSERT_EQ(index.status(), absl::OkStatus());
    EXPECT_GE(index->segments.size(), least_segments);
    const Decompressed second = Pass();
    ASSERT_EQ(second.status, absl::OkStatus());
    EXPECT_TRUE(second.report.by_index);
    EXPECT_TRUE(second.data == data);
    EXPECT_EQ(second.report.members, first.report.members);
    EXPECT_EQ(second.report.trailing_garbage, first.report.trailing_garbage);
    std::mt19937_64 random(TestSeed());
    for (int i = 0; i < 6; ++i) {
      DataRange range{random() % (data.size() + 1),
                      random() % 3 == 0 ? UINT64_MAX : random() % 100};
      if (i == 0) range = {0, 0};
      if (i == 1) range = {data.size(), 10};
      const Decompressed part = Pass(range);
      ASSERT_EQ(part.status, absl::OkStatus());
      EXPECT_TRUE(part.data == data.substr(range.begin, range.size))
          << range.begin << "+" << range.size;
    }
  }

  const testing_util::ScratchPath file_{"foreign.gz"};
  const testing_util::ScratchPath index_{"foreign.idx"};
  // Made once for all tests.
  static const std::string& Data() {
    static const std::string data = MakeData(Kind::kMixed, 20'000'000, TestSeed());
    return data;
  }
  static const std::string& Zipped() {
    static const std::string zipped = ByZlib(Data(), 6);
    return zipped;
  }
  const std::string& data_ = Data();
  const std::string& zipped_ = Zipped();
};

TEST_F(IndexTest, Passes_OfEveryLibrary_GiveTheSame) {
  for (const int level : {1, 6, 9}) {
    SCOPED_TRACE(absl::StrCat("zlib ", level));
    Check(level == 6 ? zipped_ : ByZlib(data_, level), data_, 4);
  }
  Check(ByLibdeflate(data_, 6), data_, 4);
  Check(ByIsal(data_), data_, 4);
  Check(ByZlib(data_, 6, Z_HUFFMAN_ONLY), data_, 4);
  Check(ByZlib(data_, 6, Z_RLE), data_, 4);
}

// Blocks whose ends cannot be told apart, or are not compressed at all: fewer segments, same data.
TEST_F(IndexTest, Passes_FixedAndStoredBlocks_GiveTheSame) {
  Check(ByZlib(data_, 6, Z_FIXED), data_, 1);
  Check(ByZlib(data_, 0), data_, 1);
}

TEST_F(IndexTest, Passes_MembersOfAllKinds_GiveTheSame) {
  const std::string other = MakeData(Kind::kText, 9'000'000, TestSeed() + 1);
  std::string bytes = zipped_ + ByZlib("", 6) + ByIsal(other) + ByZlib("x", 1);
  Check(bytes, data_ + other + "x", 6);
  bytes += std::string(1000, '\0');
  Check(bytes, data_ + other + "x", 6);
  bytes += "garbage";
  Check(bytes, data_ + other + "x", 6);
  Check(ByZlib("", 6), "", 1);
}

TEST_F(IndexTest, Passes_ZerosThatGrowAThousandfold_GiveTheSame) {
  std::string zeros;
  zeros.resize(40'000'000);
  Check(ByZlib(zeros, 6), zeros, 1);
}

TEST_F(IndexTest, FirstPass_CutOffOrDamaged_LeavesNoIndex) {
  const std::string bytes = zipped_;
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 6; ++i) {
    std::string bad = bytes;
    if (i % 2 == 0) {
      bad.resize(random() % bytes.size());
    } else {
      bad[bytes.size() / 4 + random() % (bytes.size() / 2)] ^=
          static_cast<char>(1 + random() % 255);
    }
    Store(bad);
    const Decompressed first = Pass();
    EXPECT_TRUE(absl::IsDataLoss(first.status) || absl::IsNotFound(first.status)) << first.status;
    EXPECT_EQ(ReadIndex(), "");
  }
}

TEST_F(IndexTest, Index_OfAnotherStateOfTheFile_IsNotUsed) {
  Store(zipped_);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  const std::string other = MakeData(Kind::kText, 5'000'000, TestSeed() + 2);
  Store(ByZlib(other, 6));
  EXPECT_THAT(std::string(Pass(DataRange{5, 5}).status.message()),
              AllOf(HasSubstr("foreign.idx"), HasSubstr("once")));
  const Decompressed pass = Pass();
  EXPECT_EQ(pass.status, absl::OkStatus());
  EXPECT_FALSE(pass.report.by_index);
  EXPECT_TRUE(pass.data == other);
  EXPECT_THAT(pass.report.remarks,
              ElementsAre(AllOf(HasSubstr("foreign.idx"), HasSubstr("not used"))));
  EXPECT_TRUE(Pass().report.by_index) << "it was written anew";
  // Touched, with the same bytes.
  const timespec times[2] = {{0, UTIME_OMIT}, {12345, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.get().c_str(), times, 0), 0);
  EXPECT_FALSE(Pass().report.by_index);
}

// The same size, time and ends: the segments' checksums tell.
TEST_F(IndexTest, File_ChangedInSecret_IsFoundByItsSegment) {
  std::string bytes = zipped_;
  Store(bytes);
  struct stat before;
  ASSERT_EQ(stat(file_.get().c_str(), &before), 0);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  bytes[bytes.size() / 2] ^= 1;
  Store(bytes);
  const timespec times[2] = {{0, UTIME_OMIT}, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, file_.get().c_str(), times, 0), 0);
  const Decompressed pass = Pass();
  EXPECT_TRUE(absl::IsDataLoss(pass.status)) << pass.status;
  EXPECT_THAT(std::string(pass.status.message()),
              AllOf(HasSubstr("at offset"), HasSubstr("remove the index")));
  EXPECT_TRUE(pass.data == data_.substr(0, pass.data.size())) << "what was before it is right";
  EXPECT_LE(DamageOffset(pass.status).value(), bytes.size() / 2);
}

TEST_F(IndexTest, Index_WithAnyByteChanged_IsNotUsed) {
  Store(zipped_);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  const std::string good = ReadIndex();
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 200; ++i) {
    std::string bad = good;
    if (i % 4 == 0) {
      bad.resize(random() % good.size());
    } else {
      bad[i < 80 ? static_cast<size_t>(i) : random() % good.size()] ^=
          static_cast<char>(1 + random() % 255);
    }
    EXPECT_FALSE(DecodeIndex(bad).ok()) << i;
  }
  WriteIndex(good.substr(0, good.size() / 2));
  const Decompressed pass = Pass();
  EXPECT_TRUE(pass.data == data_);
  EXPECT_THAT(pass.report.remarks, ElementsAre(HasSubstr("damaged, or no index; it is not used")));
  EXPECT_EQ(ReadIndex(), good);
}

class ForgedIndexTest : public IndexTest {
 protected:
  // Of what is stored; the first pass.
  GzipIndex Good() {
    unlink(index_.get().c_str());
    EXPECT_EQ(Pass().status, absl::OkStatus());
    return DecodeIndex(ReadIndex()).value();
  }
  void Forge(GzipIndex index) {
    index.data_bytes = 0;
    for (const IndexSegment& segment : index.segments) index.data_bytes += segment.data_bytes;
    WriteIndex(EncodeIndex(index));
  }
  // The data of a segment with this window before it.
  static std::string Inflate(const std::string& bytes, const IndexSegment& segment,
                             const std::string& window) {
    z_stream stream{};
    EXPECT_EQ(inflateInit2(&stream, -15), Z_OK);
    const size_t begin = segment.begin_bit / 8;
    const auto bit = static_cast<int>(segment.begin_bit % 8);
    std::string in = bytes.substr(begin, segment.end - begin);
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(in.size());
    if (bit > 0) {
      EXPECT_EQ(inflatePrime(&stream, 8 - bit, static_cast<uint8_t>(in[0]) >> bit), Z_OK);
      ++stream.next_in;
      --stream.avail_in;
    }
    EXPECT_EQ(inflateSetDictionary(&stream, reinterpret_cast<const Bytef*>(window.data()),
                                   static_cast<uInt>(window.size())),
              Z_OK);
    std::string out(segment.data_bytes, '\0');
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    inflate(&stream, Z_SYNC_FLUSH);
    EXPECT_EQ(stream.avail_out, 0u);
    inflateEnd(&stream);
    return out;
  }
  static uint32_t Crc(const std::string& data) {
    return crc32_gzip_refl(0, reinterpret_cast<const uint8_t*>(data.data()), data.size());
  }
};

// Each segment by itself is in order: its window gives the data whose checksum it has.
TEST_F(ForgedIndexTest, Window_OfOtherData_IsFoundBeforeItsDataAreWritten) {
  const std::string data = MakeData(Kind::kText, 20'000'000, TestSeed());
  const std::string bytes = ByZlib(data, 6);
  Store(bytes);
  GzipIndex index = Good();
  ASSERT_GE(index.segments.size(), 3u);
  IndexSegment& segment = index.segments[1];
  const uint64_t begin = index.segments[0].data_bytes;
  const std::string good = data.substr(begin, segment.data_bytes);
  std::string window = data.substr(begin - kDeflateWindow, kDeflateWindow);
  ASSERT_TRUE(Inflate(bytes, segment, window) == good);
  std::string other = good;
  for (size_t at = window.size() - 1; other == good; --at) {
    ASSERT_GT(at, 0u);
    window[at] ^= 1;
    other = Inflate(bytes, segment, window);
  }
  segment.window = PackWindow(window);
  segment.crc = Crc(other);
  Forge(index);
  const Decompressed pass = Pass();
  EXPECT_TRUE(absl::IsDataLoss(pass.status)) << pass.status;
  EXPECT_THAT(std::string(pass.status.message()),
              AllOf(HasSubstr("data before it"), HasSubstr("remove the index")));
  EXPECT_TRUE(pass.data == data.substr(0, begin));
  const Decompressed part = Pass(DataRange{begin - 10, segment.data_bytes});
  EXPECT_TRUE(absl::IsDataLoss(part.status)) << part.status;
  EXPECT_TRUE(part.data == data.substr(begin - 10, 10));
}

TEST_F(ForgedIndexTest, Members_LeftOut_AreMissed) {
  const std::string a = MakeData(Kind::kText, 5'000'000, TestSeed());
  const std::string bytes = ByZlib(a, 6) + ByZlib("in the middle", 6) + ByZlib("at the end", 6);
  Store(bytes);
  const GzipIndex good = Good();
  const size_t count = good.segments.size();
  ASSERT_GE(count, 4u);
  // The last; the one in the middle; the first; and a part of the first one.
  GzipIndex index = good;
  index.segments.pop_back();
  index.end = index.segments.back().end + 8;
  Forge(index);
  Decompressed pass = Pass();
  EXPECT_THAT(std::string(pass.status.message()), HasSubstr("a member follows"));
  EXPECT_TRUE(absl::IsDataLoss(pass.status));
  index.end = good.end;
  EXPECT_TRUE(absl::IsDataLoss(DecodeIndex(EncodeIndex(index)).status()));
  index = good;
  index.segments.erase(index.segments.end() - 2);
  Forge(index);
  pass = Pass();
  EXPECT_TRUE(absl::IsDataLoss(pass.status)) << pass.status;
  EXPECT_TRUE(pass.data == a);
  EXPECT_TRUE(absl::IsDataLoss(Pass(DataRange{a.size(), 5}).status));
  index = good;
  index.segments.erase(index.segments.begin(), index.segments.end() - 2);
  Forge(index);
  pass = Pass();
  EXPECT_TRUE(absl::IsDataLoss(pass.status)) << pass.status;
  EXPECT_EQ(pass.data, "");
  index = good;
  index.segments.erase(index.segments.begin() + 1, index.segments.end() - 2);
  EXPECT_FALSE(index.segments[0].ends_member);
  Forge(index);
  pass = Pass();
  EXPECT_TRUE(absl::IsDataLoss(pass.status)) << pass.status;
  EXPECT_TRUE(pass.data == a.substr(0, index.segments[0].data_bytes));
}

TEST_F(ForgedIndexTest, Garbage_OtherThanTheIndexSays_IsSeen) {
  for (const bool garbage : {false, true}) {
    Store(ByZlib("data", 6) + (garbage ? "garbage" : std::string(700'000, '\0')));
    GzipIndex index = Good();
    EXPECT_EQ(index.garbage, garbage);
    index.garbage = !garbage;
    Forge(index);
    const Decompressed pass = Pass();
    EXPECT_TRUE(pass.report.by_index);
    EXPECT_EQ(pass.report.trailing_garbage, garbage);
  }
}

// Nothing is read that no index of this file could have.
TEST_F(IndexTest, Index_OfAnySize_IsNotReadWhole) {
  const std::string data = data_.substr(0, 9'000'000);  // three segments
  Store(ByZlib(data, 6));
  ASSERT_EQ(Pass().status, absl::OkStatus());
  const std::string good = ReadIndex();
  std::string many = good;
  many.replace(56, 8, std::string("\0\0\0\4\0\0\0\0", 8));  // 2^26 segments
  for (const std::string& head : {good, many, std::string("PULSEIDX")}) {
    for (const off_t size : {off_t{1} << 40, off_t{10} << 40}) {
      WriteIndex(head);
      if (truncate(index_.get().c_str(), size) != 0) GTEST_SKIP() << "no sparse files here";
      EXPECT_TRUE(absl::IsFailedPrecondition(Pass(DataRange{5, 5}).status));
      const Decompressed pass = Pass();
      EXPECT_EQ(pass.status, absl::OkStatus());
      EXPECT_TRUE(pass.data == data);
      EXPECT_THAT(pass.report.remarks, ElementsAre(HasSubstr("; it is not used")));
      EXPECT_TRUE(ReadIndex() == good);
    }
  }
}

// Whoever can write a checksum can write any index: it is checked, and so are the data.
TEST_F(IndexTest, Index_ForgedWithAGoodChecksum_GivesNoOtherData) {
  const std::string data = data_.substr(0, 9'000'000);  // three segments
  Store(ByZlib(data, 6));
  ASSERT_EQ(Pass().status, absl::OkStatus());
  const std::string good = ReadIndex();
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 60; ++i) {
    std::string bad = good.substr(0, good.size() - 4);
    // The head, the first segment, or anything.
    const size_t at = i < 30 ? 40 + random() % 80 : random() % bad.size();
    bad[at] = static_cast<char>(random());
    AppendLe(bad, crc32_gzip_refl(0, reinterpret_cast<const uint8_t*>(bad.data()), bad.size()), 4);
    WriteIndex(bad);
    const Decompressed pass = Pass();
    if (pass.status.ok()) {
      EXPECT_TRUE(pass.data == data) << i << " at " << at;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(pass.status)) << pass.status;
    }
  }
}

// Whatever is there and is no index stays, byte for byte, and nothing is written first.
TEST_F(IndexTest, Index_PathOfSomethingElse_IsNotReplaced) {
  const std::string bytes = ByZlib(data_.substr(0, 3'000'000), 6);
  Store(bytes);
  for (const std::string& precious : {std::string("notes\n"), std::string("PULSE"), bytes}) {
    WriteIndex(precious);
    for (const bool range : {false, true}) {
      const Decompressed pass =
          Pass(range ? std::optional<DataRange>(DataRange{5, 5}) : std::nullopt);
      EXPECT_TRUE(absl::IsInvalidArgument(pass.status)) << pass.status;
      EXPECT_THAT(std::string(pass.status.message()),
                  AllOf(HasSubstr(index_.get()), HasSubstr("not overwritten")));
      EXPECT_EQ(pass.data, "");
      EXPECT_TRUE(ReadIndex() == precious);
    }
  }
  // The input, by its name or another one.
  unlink(index_.get().c_str());
  ASSERT_EQ(link(file_.get().c_str(), index_.get().c_str()), 0);
  for (const std::string& path : {file_.get(), index_.get()}) {
    const Decompressed pass = PassWith(path);
    EXPECT_TRUE(absl::IsInvalidArgument(pass.status)) << pass.status;
    EXPECT_THAT(std::string(pass.status.message()),
                AllOf(HasSubstr(path), HasSubstr("is the input")));
    EXPECT_TRUE(ReadIndex() == bytes);
  }
  unlink(index_.get().c_str());
  EXPECT_TRUE(absl::IsInvalidArgument(PassWith("/dev/null").status));
  // An empty file, such as mktemp makes.
  WriteIndex("");
  EXPECT_EQ(Pass().status, absl::OkStatus());
  EXPECT_TRUE(Pass().report.by_index);
}

TEST_F(IndexTest, SaveIndex_WhereSomethingHasComeMeanwhile_LeavesIt) {
  Store(ByZlib("x", 6));
  ASSERT_EQ(Pass().status, absl::OkStatus());
  const GzipIndex index = DecodeIndex(ReadIndex()).value();
  const UniqueFd in(open(file_.get().c_str(), O_RDONLY | O_CLOEXEC));
  WriteIndex("notes");
  EXPECT_TRUE(absl::IsInvalidArgument(SaveIndex(index_.get(), index, in.get())));
  EXPECT_EQ(ReadIndex(), "notes");
  EXPECT_TRUE(absl::IsInvalidArgument(SaveIndex(file_.get(), index, in.get())));
}

// An index has data of the input in the clear.
TEST_F(IndexTest, Index_ModeOfTheInput_IsItsOwn) {
  const std::string bytes = ByZlib(data_.substr(0, 100'000), 6);
  const mode_t before = umask(022);
  for (const mode_t mode : {0600, 0640, 0644, 0755, 0400}) {
    unlink(file_.get().c_str());
    unlink(index_.get().c_str());
    Store(bytes);
    ASSERT_EQ(chmod(file_.get().c_str(), mode), 0);
    ASSERT_EQ(Pass().status, absl::OkStatus());
    struct stat info;
    ASSERT_EQ(stat(index_.get().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, mode & 0666) << std::oct << mode;
  }
  umask(before);
}

TEST_F(IndexTest, Index_GroupOfTheInput_IsItsOwn) {
  Store(ByZlib(data_.substr(0, 100'000), 6));
  if (chown(file_.get().c_str(), 12345, 23456) != 0) GTEST_SKIP() << "no right to give files away";
  ASSERT_EQ(chmod(file_.get().c_str(), 0640), 0);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  struct stat info;
  ASSERT_EQ(stat(index_.get().c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12345U);
  EXPECT_EQ(info.st_gid, 23456U);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
}

TEST_F(IndexTest, FirstPass_OnlyChecking_WritesNoIndex) {
  Store(zipped_);
  const auto check = [&] {
    const UniqueFd in(open(file_.get().c_str(), O_RDONLY | O_CLOEXEC));
    DecompressOptions options;
    options.index = index_.get();
    return Decompress(options, in.get(), "IN", -1, "OUT").value();
  };
  EXPECT_THAT(check().remarks, IsEmpty());
  EXPECT_NE(access(index_.get().c_str(), F_OK), 0);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  EXPECT_TRUE(check().by_index) << "one that is there is used";
}

TEST_F(IndexTest, FirstPass_WhatNeedsNoIndex_SaysSo) {
  for (const Format format : kAllFormats) {
    CompressOptions options;
    options.format = format;
    Store(CompressText(options, data_.substr(0, 3'000'000)).value());
    const Decompressed pass = Pass();
    EXPECT_EQ(pass.status, absl::OkStatus());
    EXPECT_THAT(pass.report.remarks, ElementsAre(HasSubstr("no index of IN")));
    EXPECT_EQ(ReadIndex(), "");
  }
}

TEST_F(IndexTest, SecondPass_MoreThanTheLimit_IsRefused) {
  Store(zipped_);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(Pass(std::nullopt, 1'000'000).status));
}

TEST_F(IndexTest, Pass_PipeOrRangeBeyondTheEnd_IsRefused) {
  Store(zipped_);
  ASSERT_EQ(Pass().status, absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(Pass(DataRange{data_.size() + 1, 1}).status));
  DecompressOptions options;
  options.index = index_.get();
  EXPECT_TRUE(absl::IsInvalidArgument(DecompressText(ByZlib("x", 6), true, options).status));
}

}  // namespace
}  // namespace pulse::ops
