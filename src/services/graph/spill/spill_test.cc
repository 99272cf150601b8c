// Spilled rows: the codec, files, and their errors.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <random>

#include "base/testing.h"
#include "services/graph/functions/spill_file.h"
#include "services/graph/model/test_values.h"
#include "services/graph/spill/spill_rows.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

using testing_util::ScratchPath;
using testing_util::TestSeed;
using testing_util::Text;

std::string RowBytes(const Value& value) {
  std::string bytes;
  AppendRowValue(value, &bytes);
  return bytes;
}

EdgeRef RandomEdge(std::mt19937_64& random) {
  return {random(), random() >> (random() % 64), random(), static_cast<Token>(random())};
}

// Also what no literal says.
Value RandomRowValue(std::mt19937_64& random, int depth = 0) {
  switch (random() % (depth > 3 ? 5 : 8)) {
    case 0:
      return Value::Node(random() >> (random() % 64));
    case 1:
      return Value::Edge(RandomEdge(random));
    case 2: {
      Path path;
      path.nodes.push_back(random());
      for (size_t i = random() % 4; i > 0; --i) {
        path.edges.push_back(RandomEdge(random));
        path.nodes.push_back(random());
      }
      return Value::MakePath(std::move(path));
    }
    case 3: {
      constexpr double kOdd[] = {0.0,
                                 -0.0,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::denorm_min()};
      return Value::Float(kOdd[random() % std::size(kOdd)]);
    }
    case 4:
      return RandomLiteral(random);
    case 5: {
      ValueMap map;
      for (size_t i = random() % 4; i > 0; --i) {
        map.emplace_back(std::string(i, 'k'), RandomRowValue(random, depth + 1));
      }
      return Value::Map(std::move(map));
    }
    default: {
      ValueList list;
      for (size_t i = random() % 5; i > 0; --i) list.push_back(RandomRowValue(random, depth + 1));
      return Value::List(std::move(list));
    }
  }
}

// To the last bit.
bool Same(const Value& a, const Value& b) {
  if (a.type() != b.type()) return false;
  if (a.is_edge()) {
    const EdgeRef &x = a.as_edge(), &y = b.as_edge();
    return x.id == y.id && x.source == y.source && x.target == y.target && x.type == y.type;
  }
  return RowBytes(a) == RowBytes(b) && (Order(a, b) == 0 && Hash(a) == Hash(b));
}

TEST(SpillRows, ValuesOfAllTypes_EncodedAndDecoded_AreEqual) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    const Value value = RandomRowValue(random);
    const std::string bytes = RowBytes(value) + "x";
    std::string_view in = bytes;
    Value read;
    ASSERT_TRUE(ReadRowValue(&in, &read));
    EXPECT_EQ(in, "x");
    ASSERT_TRUE(Same(value, read)) << TypeName(value.type()) << " " << i;
  }
  Value deep = Value::Node(7);
  for (int i = 0; i < kMaxValueDepth; ++i) deep = Value::List({deep});
  const std::string bytes = RowBytes(deep);
  std::string_view in = bytes;
  Value read;
  ASSERT_TRUE(ReadRowValue(&in, &read));
  EXPECT_TRUE(Same(deep, read));
  EXPECT_EQ(read.depth(), kMaxValueDepth);
}

// Fails, and does less than it is asked for, when it is told to.
class FaultyDisk : public SpillDisk {
 public:
  ssize_t Write(int fd, const char* bytes, size_t size, uint64_t offset) override {
    if (left == 0) return errno = error, -1;
    return SpillDisk::Write(fd, bytes, Part(std::min(size, left), &left), offset);
  }
  ssize_t Read(int fd, char* bytes, size_t size, uint64_t offset) override {
    if (cut) return 0;
    if (bad_reads) return errno = EIO, -1;
    size_t all = size;
    return SpillDisk::Read(fd, bytes, Part(size, &all), offset);
  }
  UniqueFd Open(const std::string& directory) override {
    if (!openable) return errno = EACCES, UniqueFd();
    return SpillDisk::Open(directory);
  }

  size_t left = ~size_t{0};  // bytes that it takes
  int error = ENOSPC;
  bool small = false, cut = false, bad_reads = false, openable = true;

 private:
  size_t Part(size_t size, size_t* of) {
    const size_t part = small ? (size + 2) / 3 : size;
    *of -= part;
    return part;
  }
};

class SpillFileTest : public testing::Test {
 protected:
  SpillFileTest() { options_ = {testing::TempDir(), uint64_t{1} << 30, &disk_}; }
  FaultyDisk disk_;
  SpillOptions options_;
};

TEST_F(SpillFileTest, RowsOfAllSizes_InPieces_KeepTheirOrder) {
  disk_.small = true;
  SpillSpace space(options_);
  const auto file = SpillFile::Make(&space);
  ASSERT_TRUE(file.ok()) << file.status();
  std::mt19937_64 random(TestSeed());
  std::vector<std::string> rows;
  for (int i = 0; i < 500; ++i) {
    rows.emplace_back(random() % (i % 100 == 0 ? 100'000 : 300), static_cast<char>('a' + i % 26));
  }
  rows.emplace_back(16 << 20, 'z');
  rows.emplace_back();
  // Two at once, whose pieces lie between each other's.
  SpillWriter forth(file->get(), 4096), back(file->get(), 1000);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(forth.Add(rows[i]).ok());
    ASSERT_TRUE(back.Add(rows[rows.size() - 1 - i]).ok());
  }
  const auto one = forth.Finish(), other = back.Finish();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->largest, size_t{16} << 20);
  EXPECT_GT(one->pieces.size(), 10u);
  SpillReader first(file->get(), *one, 4096), second(file->get(), *other, 100);
  for (size_t i = 0; i < rows.size(); ++i) {
    auto row = first.Next();
    ASSERT_TRUE(row.ok()) << row.status();
    ASSERT_EQ(*row, rows[i]);
    row = second.Next();
    ASSERT_TRUE(row.ok()) << row.status();
    ASSERT_EQ(*row, rows[rows.size() - 1 - i]);
  }
  EXPECT_TRUE(first.done() && second.done());
}

TEST_F(SpillFileTest, FullDisk_SaysWhere) {
  disk_.left = 1000;
  disk_.small = true;
  SpillSpace space(options_);
  const auto file = SpillFile::Make(&space);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append(std::string(900, 'x')).ok());
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    disk_.error = error;
    const auto full = (*file)->Append(std::string(200, 'x')).status();
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
    EXPECT_NE(Text(full).find(options_.directory), std::string::npos) << full;
    EXPECT_NE(Text(full).find("900 bytes"), std::string::npos) << full;
    EXPECT_EQ(InfoOf(full).detail, kDiskFull) << full;
    EXPECT_EQ(Text(full).find("ulimit -f") != std::string::npos, error == EFBIG) << full;
  }
  disk_.error = EIO;
  EXPECT_FALSE((*file)->Append("x").ok());
  EXPECT_NE((*file)->Append("x").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SpillFileTest, LimitOfBytes_IsOfAllFilesAtATime) {
  options_.limit_bytes = 1000;
  SpillSpace space(options_);
  auto one = SpillFile::Make(&space), other = SpillFile::Make(&space);
  ASSERT_TRUE(one.ok() && other.ok());
  ASSERT_TRUE((*one)->Append(std::string(600, 'x')).ok());
  const absl::Status over = (*other)->Append(std::string(401, 'x')).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(InfoOf(over).detail, "LimitExceeded") << "the disk is not full";
  ASSERT_TRUE((*other)->Append(std::string(400, 'x')).ok());
  one->reset();
  EXPECT_TRUE((*other)->Append(std::string(600, 'x')).ok());
  EXPECT_EQ(space.written(), 1600u);
}

TEST_F(SpillFileTest, ReadsThatFailOrEnd_AreErrors) {
  SpillSpace space(options_);
  const auto file = SpillFile::Make(&space);
  ASSERT_TRUE(file.ok());
  SpillWriter writer(file->get(), 10);
  ASSERT_TRUE(writer.Add("a row of some length").ok());
  const auto run = writer.Finish();
  ASSERT_TRUE(run.ok());
  disk_.cut = true;
  EXPECT_EQ(SpillReader(file->get(), *run, 100).Next().status().code(),
            absl::StatusCode::kDataLoss);
  disk_.cut = false;
  disk_.bad_reads = true;
  EXPECT_FALSE(SpillReader(file->get(), *run, 100).Next().ok());
  disk_.bad_reads = false;
  EXPECT_TRUE(SpillReader(file->get(), *run, 100).Next().ok());
  // More rows than there are bytes.
  SpillRun more = *run;
  ++more.rows;
  SpillReader reader(file->get(), more, 100);
  ASSERT_TRUE(reader.Next().ok());
  EXPECT_FALSE(reader.Next().ok());
}

TEST_F(SpillFileTest, DirectoryThatTakesNoFile_IsNamed) {
  for (const bool there : {false, true}) {
    disk_.openable = !there;
    SpillOptions options = options_;
    if (!there) options.directory += "/there-is-none";
    SpillSpace space(options);
    const auto file = SpillFile::Make(&space);
    ASSERT_FALSE(file.ok());
    EXPECT_NE(Text(file.status()).find(options.directory), std::string::npos) << file.status();
    EXPECT_NE(Text(file.status()).find("--spill"), std::string::npos) << file.status();
  }
}

TEST_F(SpillFileTest, Files_HaveNoName) {
  const ScratchPath directory("spill");
  ASSERT_EQ(mkdir(directory.get().c_str(), 0700), 0);
  options_.directory = directory.get();
  SpillSpace space(options_);
  const auto file = SpillFile::Make(&space);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append("x").ok());
  EXPECT_EQ(rmdir(directory.get().c_str()), 0) << strerror(errno);
}

}  // namespace
}  // namespace pulse::cypher
