// The parser of MANIFEST records: against MANIFESTs of the real library, cut into appends at will,
// and against what the library never writes today but readers must expect.
#include "services/lsm/core/manifest_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "rocksdb/listener.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_manifest.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Numbers of all tables and blob files that a database has made.
class Created : public rocksdb::EventListener {
 public:
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    if (info.status.ok() && info.file_size > 0) Add(info.file_path);
  }
  void OnBlobFileCreated(const rocksdb::BlobFileCreationInfo& info) override {
    if (info.status.ok()) Add(info.file_path);
  }
  std::set<uint64_t> numbers() {
    std::lock_guard lock(mu_);
    return numbers_;
  }

 private:
  void Add(const std::string& path) {
    std::lock_guard lock(mu_);
    numbers_.insert(std::stoull(path.substr(path.rfind('/') + 1)));
  }

  std::mutex mu_;
  std::set<uint64_t> numbers_;
};

// The bytes of the database's MANIFESTs, oldest first.
std::vector<std::string> Manifests(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(path)) {
    const std::string name = e.path().filename().string();
    if (name.rfind("MANIFEST-", 0) == 0) names.push_back(e.path().string());
  }
  std::sort(names.begin(), names.end());
  for (std::string& n : names) n = ReadRaw(n);
  return names;
}

// Feeds `bytes` in pieces of `piece` bytes, or of random sizes when 0. They are understood from the
// first piece on with which a fragment is complete.
std::set<uint64_t> Added(const std::string& bytes, size_t piece, std::mt19937_64* rng,
                         ManifestRecords records = ManifestRecords()) {
  std::vector<uint64_t> added;
  bool understood = false;
  for (size_t at = 0; at < bytes.size();) {
    const size_t n = piece != 0 ? piece : 1 + (*rng)() % (uint64_t{1} << ((*rng)() % 17));
    const bool before = understood;
    understood = records.Append(absl::string_view(bytes).substr(at, n), &added);
    EXPECT_TRUE(understood || !before) << "at " << at;
    at += n;
  }
  EXPECT_TRUE(understood);
  return {added.begin(), added.end()};
}

struct Shape {
  const char* name;
  bool blobs;
  bool atomic_flush;
  size_t key_bytes;  // the bounds of a table are in its record
  bool wals_in_manifest;
};

class RealManifestTest : public ::testing::TestWithParam<Shape> {};

TEST_P(RealManifestTest, RealManifest_EveryAddedFile_IsSeen) {
  const Shape shape = GetParam();
  const uint64_t seed = TestSeed();
  std::mt19937_64 rng(seed);
  ScratchDir dir;
  auto created = std::make_shared<Created>();
  rocksdb::Options options = SmallDbOptions(nullptr);
  options.listeners.push_back(created);
  options.atomic_flush = shape.atomic_flush;
  options.enable_blob_files = shape.blobs;
  options.min_blob_size = 200;
  options.enable_blob_garbage_collection = shape.blobs;
  options.blob_garbage_collection_age_cutoff = 0.5;
  options.track_and_verify_wals_in_manifest = shape.wals_in_manifest;
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  std::filesystem::create_directory(dir / "paths");
  TestDb db(options, dir / "db", {"a", "b"});
  db.family_options("b") = options;
  db.family_options("b").cf_paths = {{dir / "paths", 64 << 10}, {dir / "db", uint64_t{1} << 40}};
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 12; ++i) {
    for (int k = 0; k < 20; ++k) {
      const std::string family = k % 3 == 0 ? "a" : k % 3 == 1 ? "b" : "default";
      std::string key = RandomBytes(&rng, shape.key_bytes);
      ASSERT_TRUE(db.Put(family, key, RandomBytes(&rng, 400), i % 2 == 0).ok());
    }
    ASSERT_TRUE(db.FlushAll().ok());
    if (i % 4 == 3) {
      ASSERT_TRUE(db.CompactAll().ok());
    }
  }
  // A compaction that is cut short by closing has made files that no record names.
  ASSERT_TRUE(db->PauseBackgroundWork().ok());
  const auto manifests = Manifests(db.path());
  ASSERT_EQ(manifests.size(), 1u);  // so everything ever added is in it
  const std::set<uint64_t> want = created->numbers();
  ASSERT_TRUE(db->ContinueBackgroundWork().ok());
  db.Close();
  ASSERT_GT(want.size(), 20u);
  EXPECT_EQ(Added(manifests[0], manifests[0].size(), &rng), want);
  for (size_t piece : {size_t{1}, size_t{7}, size_t{4096}, size_t{32768}, size_t{65536}}) {
    EXPECT_EQ(Added(manifests[0], piece, &rng), want) << piece;
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Added(manifests[0], 0, &rng), want) << "seed " << seed;
}

// A new MANIFEST begins with all files of the version, in one record for each family.
TEST_P(RealManifestTest, RealManifest_Snapshot_NamesLiveFiles) {
  const Shape shape = GetParam();
  std::mt19937_64 rng(TestSeed());
  ScratchDir dir;
  rocksdb::Options options = SmallDbOptions(nullptr);
  options.disable_auto_compactions = true;
  options.enable_blob_files = shape.blobs;
  std::set<uint64_t> alive;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(db.Put("default", RandomBytes(&rng, shape.key_bytes), "v").ok());
    ASSERT_TRUE(db.Put("default", RandomBytes(&rng, shape.key_bytes), "v").ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  db.Close();
  ASSERT_TRUE(db.Open().ok());
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  for (const auto& f : files) alive.insert(std::stoull(f.name.substr(1)));
  db.Close();
  std::set<uint64_t> added = Added(Manifests(db.path()).back(), 0, &rng);
  for (const uint64_t n : alive) EXPECT_EQ(added.count(n), 1u) << n;
  if (!shape.blobs) {
    EXPECT_EQ(added, alive);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RealManifestTest,
                         ::testing::Values(Shape{"plain", false, false, 16, false},
                                           Shape{"blobs", true, false, 16, false},
                                           Shape{"atomic_flush", true, true, 16, true},
                                           // Records of several blocks.
                                           Shape{"long_keys", false, false, 50'000, false}),
                         [](const auto& p) { return p.param.name; });

// What follows an existing file is understood from its middle on.
TEST(ManifestRecordsTest, Append_ExistingFile_Continues) {
  std::mt19937_64 rng(TestSeed());
  ScratchDir dir;
  rocksdb::Options options = SmallDbOptions(nullptr);
  options.disable_auto_compactions = true;
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  std::vector<size_t> sizes;
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(db.Put("default", RandomBytes(&rng, 2000), "v").ok());
    ASSERT_TRUE(db.FlushAll().ok());
    sizes.push_back(Manifests(db.path()).back().size());
    std::vector<rocksdb::LiveFileMetaData> files;
    db->GetLiveFilesMetaData(&files);
    uint64_t newest = 0;
    for (const auto& f : files) newest = std::max(newest, f.file_number);
    numbers.push_back(newest);
  }
  const std::string all = Manifests(db.path()).back();
  ASSERT_GT(all.size(), 3u * 32768);
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::set<uint64_t> added =
        Added(all.substr(sizes[i]), 0, &rng, ManifestRecords(sizes[i]));
    EXPECT_EQ(added, std::set<uint64_t>(numbers.begin() + i + 1, numbers.end())) << i;
  }
}

std::vector<uint64_t> AddedBy(const std::string& record) {
  std::vector<uint64_t> added;
  EXPECT_TRUE(FilesAddedBy(record, &added));
  return added;
}
bool Understood(const std::string& record) {
  std::vector<uint64_t> added;
  return FilesAddedBy(record, &added);
}

// At every distance from the end of a block, with both kinds of header.
TEST(ManifestRecordsTest, Append_RecordAtEveryOffset_IsRead) {
  std::mt19937_64 rng(TestSeed());
  for (bool recyclable : {false, true}) {
    for (size_t distance = 0; distance < 40; ++distance) {
      Framer log(recyclable);
      const size_t header = recyclable ? 11 : 7;
      // An ignorable field fills the block up to `distance`.
      const size_t filler = kBlock - distance - header;
      std::string record = Varint(8198);
      record += Bytes(std::string(filler - record.size() - 3, 'x'));
      ASSERT_EQ(record.size(), filler);
      log.Add(record);
      ASSERT_EQ(log.bytes().size(), kBlock - distance);
      log.Add(NewFile4(77));
      log.Add(NewFile4(78));
      for (size_t piece : {size_t{0}, size_t{1}, log.bytes().size()}) {
        EXPECT_EQ(Added(log.bytes(), piece, &rng), (std::set<uint64_t>{77, 78}))
            << recyclable << " " << distance << " " << piece;
      }
    }
  }
}

// The number counts with the last byte of its record, not before: without it nobody reads it.
TEST(ManifestRecordsTest, Append_PartialRecord_CountsWhenComplete) {
  Framer log;
  log.Add(NewFile4(5) + Varint(8198) + Bytes(std::string(100'000, 'x')));
  ManifestRecords records;
  std::vector<uint64_t> added;
  const absl::string_view bytes = log.bytes();
  ASSERT_TRUE(records.Append(bytes.substr(0, bytes.size() - 1), &added));
  EXPECT_THAT(added, IsEmpty());
  ASSERT_TRUE(records.Append(bytes.substr(bytes.size() - 1), &added));
  EXPECT_THAT(added, ElementsAre(5));
}

// Until then it could be anything. From then on it is a log, also where a fragment is cut.
TEST(ManifestRecordsTest, Append_CutFirstFragment_IsUnderstoodOnceComplete) {
  const std::string first = Naming(5);
  const std::string next = Naming(6);
  ManifestRecords records;
  std::vector<uint64_t> added;
  for (size_t i = 0; i + 1 < first.size(); ++i) {
    EXPECT_FALSE(records.Append(first.substr(i, 1), &added)) << i;
  }
  EXPECT_TRUE(records.Append(first.substr(first.size() - 1), &added));
  for (char c : next) EXPECT_TRUE(records.Append(std::string(1, c), &added));
  EXPECT_THAT(added, ElementsAre(5, 6));
}

TEST(ManifestRecordsTest, Append_AnyBitFlipped_IsReported) {
  for (bool recyclable : {false, true}) {
    Framer log(recyclable);
    log.Add(NewFile4(5));
    const size_t begin = log.bytes().size();
    log.Add(NewFile4(6));
    const size_t end = log.bytes().size();
    // So that a fragment which claims to be longer has its end as well.
    log.Add(NewFile4(7, Varint(4) + Bytes(std::string(40'000, 'x'))));
    for (size_t bit = 8 * begin; bit < 8 * end; ++bit) {
      std::string bytes = log.bytes();
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      ManifestRecords records;
      std::vector<uint64_t> added;
      EXPECT_FALSE(records.Append(bytes, &added)) << recyclable << " " << bit;
      EXPECT_THAT(added, ElementsAre(5)) << recyclable << " " << bit;
    }
  }
}

TEST(ManifestRecordsTest, Append_EncryptedBytes_AreNeverUnderstood) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 rng(seed);
  Framer log;
  for (int i = 0; i < 100; ++i) log.Add(NewFile4(i));
  for (int i = 0; i < 300; ++i) {
    const std::string bytes = Encrypted(log.bytes(), &rng);
    ManifestRecords records;
    std::vector<uint64_t> added;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + rng() % 200;
      ASSERT_FALSE(records.Append(absl::string_view(bytes).substr(at, n), &added))
          << "seed " << seed;
      at += n;
    }
    EXPECT_THAT(added, IsEmpty());
  }
}

TEST(ManifestRecordsTest, Append_EveryFormOfNewFile_IsRead) {
  const std::string tail = Varint(9) + Bytes("a") + Bytes("b");
  EXPECT_THAT(AddedBy(Varint(7) + Varint(0) + Varint(11) + tail), ElementsAre(11));
  EXPECT_THAT(AddedBy(Varint(100) + Varint(0) + Varint(12) + tail + Varint(1) + Varint(2)),
              ElementsAre(12));
  EXPECT_THAT(
      AddedBy(Varint(102) + Varint(0) + Varint(13) + Varint(1) + tail + Varint(1) + Varint(2)),
      ElementsAre(13));
  EXPECT_THAT(AddedBy(NewFile4(uint64_t{1} << 40)), ElementsAre(uint64_t{1} << 40));
  // Custom fields: the path, one of a later version, and one that must be known.
  EXPECT_THAT(AddedBy(NewFile4(14, Varint(65) + Bytes("\x01"))), ElementsAre(14));
  EXPECT_THAT(AddedBy(NewFile4(15, Varint(40) + Bytes("new"))), ElementsAre(15));
  EXPECT_FALSE(Understood(NewFile4(16, Varint(66) + Bytes("new"))));
  EXPECT_THAT(AddedBy(Varint(400) + BlobFile(17)), ElementsAre(17));
  EXPECT_THAT(AddedBy(Varint(8194) + BlobFile(18)), ElementsAre(18));
  EXPECT_THAT(AddedBy(Varint(400) + BlobFile(19, Varint(3) + Bytes("new"))), ElementsAre(19));
  EXPECT_FALSE(Understood(Varint(400) + BlobFile(20, Varint(64) + Bytes("new"))));
}

TEST(ManifestRecordsTest, Append_OtherFields_AddNothing) {
  const std::string fields =
      Varint(1) + Bytes("comparator") + Varint(2) + Varint(3) + Varint(3) + Varint(4) + Varint(4) +
      Varint(5) + Varint(5) + Varint(0) + Bytes("key") + Varint(6) + Varint(0) + Varint(9) +
      Varint(9) + Varint(1) + Varint(10) + Varint(1) + Varint(200) + Varint(1) + Varint(201) +
      Bytes("name") + Varint(202) + Varint(203) + Varint(7) + Varint(300) + Varint(2) +
      Varint(401) + Varint(1) + Varint(2) + Varint(3) + Varint(0) + Varint(8193) + Bytes("id") +
      Varint(8199) + Bytes("wal") + Varint(8203) + Bytes("size");
  EXPECT_THAT(AddedBy(fields), IsEmpty());
  EXPECT_THAT(AddedBy(fields + NewFile4(4) + fields), ElementsAre(4));
  EXPECT_THAT(AddedBy(""), IsEmpty());
}

TEST(ManifestRecordsTest, Append_UnknownField_IsReported) {
  EXPECT_FALSE(Understood(Varint(11) + Varint(1)));         // a tag nobody knows
  EXPECT_FALSE(Understood(Varint(8202) + Bytes("files")));  // names outputs of its own
  EXPECT_FALSE(Understood(Varint(8196) + Varint(1)));       // ignorable, but without a length
  EXPECT_TRUE(Understood(Varint(8192 + 500) + Bytes("from the future")));
  const std::string whole = NewFile4(4) + Varint(400) + BlobFile(5) + Varint(8193) + Bytes("id");
  size_t understood = 0;
  for (size_t n = 1; n < whole.size(); ++n) understood += Understood(whole.substr(0, n)) ? 1 : 0;
  EXPECT_EQ(understood, 2u);  // at the two seams
}

TEST(ManifestRecordsTest, Append_NotALog_IsReported) {
  const auto fed = [](const std::vector<std::pair<int, std::string>>& fragments) {
    Framer log;
    for (const auto& [type, payload] : fragments) log.Fragment(type, payload);
    ManifestRecords records;
    std::vector<uint64_t> added;
    const bool understood = records.Append(log.bytes(), &added);
    // Once lost, it stays so.
    Framer good;
    good.Add(NewFile4(1));
    EXPECT_EQ(records.Append(good.bytes(), &added), understood);
    return understood;
  };
  EXPECT_TRUE(fed({{1, NewFile4(3)}}));
  EXPECT_FALSE(fed({{3, "x"}}));                      // a middle without a first
  EXPECT_FALSE(fed({{4, "x"}}));                      // a last without a first
  EXPECT_FALSE(fed({{2, "x"}, {1, NewFile4(3)}}));    // a first without a last
  EXPECT_FALSE(fed({{9, "x"}}));                      // compressed
  EXPECT_FALSE(fed({{0, "x"}}));                      // zeros
  EXPECT_FALSE(fed({{1, NewFile4(3)}, {130, "x"}}));  // ignorable, but in no MANIFEST
  Framer log;
  log.Fragment(1, std::string(40'000, 'x'));  // longer than its block
  ManifestRecords records;
  std::vector<uint64_t> added;
  EXPECT_FALSE(records.Append(log.bytes(), &added));
}

TEST(ManifestRecordsTest, Append_RandomBytes_DoesNotCrash) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 rng(seed);
  const auto flipped = [&rng](std::string bytes) {
    for (int flips = 0; flips < 3; ++flips) bytes[rng() % bytes.size()] ^= 1 << (rng() % 8);
    return bytes;
  };
  Framer log;
  std::string record;
  for (int i = 0; i < 300; ++i) {
    const std::string table = NewFile4(i, Varint(4) + Bytes(std::string(rng() % 900, 'x')));
    log.Add(table);
    record += table;
  }
  for (int i = 0; i < 300; ++i) {
    std::string bytes = flipped(log.bytes());
    ManifestRecords records;
    std::vector<uint64_t> added;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + rng() % 5000;
      // Whatever the answer, no harm; and nothing is invented beyond what bytes can hold.
      records.Append(absl::string_view(bytes).substr(at, n), &added);
      at += n;
    }
    EXPECT_LE(added.size(), bytes.size() / 8) << "seed " << seed;
    // Behind a checksum that is right.
    added.clear();
    bytes = flipped(record);
    FilesAddedBy(bytes, &added);
    EXPECT_LE(added.size(), bytes.size() / 8) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pulse::lsm::test
