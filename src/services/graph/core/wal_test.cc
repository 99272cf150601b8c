#include "services/graph/core/wal.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>

#include "base/testing.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

using testing_util::TestSeed;
using testing_util::Text;
using Records = std::vector<std::pair<uint64_t, std::string>>;

constexpr char kDir[] = "db";
constexpr char kFirst[] = "db/00000001.wal";

Wal::Replay Into(Records* out) {
  return [out](uint64_t sequence, std::string_view payload) {
    out->emplace_back(sequence, std::string(payload));
    return absl::OkStatus();
  };
}

std::unique_ptr<Wal> OpenOk(Files* files, Records* records, const WalOptions& options = {},
                            uint64_t first = 1) {
  auto wal = Wal::Open(files, kDir, first, options, Into(records));
  EXPECT_TRUE(wal.ok()) << wal.status();
  return wal.ok() ? *std::move(wal) : nullptr;
}

absl::Status WriteOne(Wal* wal, uint64_t sequence, std::string_view payload) {
  WalEntry entry{sequence, payload, {}};
  WalEntry* pointer = &entry;
  wal->Write({&pointer, 1});
  return entry.result;
}

std::string Payload(std::mt19937_64& random, size_t most) {
  std::string bytes(1 + random() % most, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

TEST(Wal, GroupsOfEntries_Reopened_KeepTheirOrder) {
  std::mt19937_64 random(TestSeed());
  SimFiles files;
  WalOptions options;
  options.segment_bytes = 2000;
  Records written;
  {
    Records none;
    const auto wal = OpenOk(&files, &none, options);
    uint64_t sequence = 0;
    for (int group = 0; group < 50; ++group) {
      std::vector<std::string> payloads(1 + random() % 8);
      std::vector<WalEntry> entries;
      std::vector<WalEntry*> pointers;
      entries.reserve(payloads.size());
      for (std::string& payload : payloads) {
        payload = Payload(random, 300);
        sequence += 1 + random() % 3;
        entries.push_back({sequence, payload, {}});
        pointers.push_back(&entries.back());
        written.emplace_back(sequence, payload);
      }
      wal->Write(pointers);
      for (const WalEntry& entry : entries) ASSERT_TRUE(entry.result.ok()) << entry.result;
    }
    EXPECT_GT(files.names().size(), 5u);
  }
  Records read;
  const auto wal = OpenOk(&files, &read, options);
  EXPECT_EQ(read, written);
  EXPECT_EQ(wal->last_sequence(), written.back().first);
}

TEST(Wal, EntriesFromOneByteTo40MiB_Reopened_AreEqual) {
  SimFiles files;
  Records written, read;
  {
    const auto wal = OpenOk(&files, &read);
    uint64_t sequence = 0;
    for (const size_t size : {size_t{1}, kMaxWalRecord - 1, kMaxWalRecord, kMaxWalRecord + 1,
                              size_t{40} << 20, size_t{2}}) {
      ++sequence;
      written.emplace_back(sequence, std::string(size, static_cast<char>('a' + sequence)));
      ASSERT_TRUE(WriteOne(wal.get(), sequence, written.back().second).ok());
    }
  }
  OpenOk(&files, &read);
  EXPECT_TRUE(read == written);
}

TEST(Wal, CutAtEveryByte_KeepsWholeEntriesAndGoesOn) {
  std::mt19937_64 random(TestSeed());
  SimFiles whole;
  Records written, none;
  std::vector<size_t> ends{kWalSegmentHeader};
  {
    const auto wal = OpenOk(&whole, &none);
    for (uint64_t sequence = 1; sequence <= 6; ++sequence) {
      written.emplace_back(sequence, Payload(random, 40));
      ASSERT_TRUE(WriteOne(wal.get(), sequence, written.back().second).ok());
      ends.push_back(whole.Content(kFirst).size());
    }
  }
  const std::string bytes = whole.Content(kFirst);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    SimFiles files;
    files.Put(kFirst, bytes.substr(0, cut));
    size_t expected = 0;
    while (expected < written.size() && ends[expected + 1] <= cut) ++expected;
    Records read;
    {
      const auto wal = OpenOk(&files, &read);
      ASSERT_NE(wal, nullptr) << cut;
      ASSERT_EQ(read, Records(written.begin(), written.begin() + static_cast<long>(expected)));
      ASSERT_TRUE(WriteOne(wal.get(), 100, "more").ok());
    }
    Records again;
    OpenOk(&files, &again);
    ASSERT_EQ(again.size(), expected + 1);
    EXPECT_EQ(again.back(), (Records::value_type{100, "more"}));
  }
}

TEST(Wal, CutInsideAnEntryOfSeveralRecords_DropsAllOfIt) {
  SimFiles files;
  Records none;
  {
    const auto wal = OpenOk(&files, &none);
    ASSERT_TRUE(WriteOne(wal.get(), 1, "first").ok());
    ASSERT_TRUE(WriteOne(wal.get(), 2, std::string(2 * kMaxWalRecord + 5, 'x')).ok());
  }
  std::string& bytes = files.Content(kFirst);
  bytes.resize(bytes.size() - 1);
  Records read;
  OpenOk(&files, &read);
  EXPECT_EQ(read, (Records{{1, "first"}}));
  EXPECT_LT(bytes.size(), 100u);
}

TEST(Wal, DamageOfWhatWasDurable_IsReportedAndReadUpTo) {
  SimFiles whole;
  Records none;
  std::vector<size_t> ends{kWalSegmentHeader};
  {
    const auto wal = OpenOk(&whole, &none);
    for (uint64_t sequence = 1; sequence <= 4; ++sequence) {
      ASSERT_TRUE(WriteOne(wal.get(), sequence, "payload").ok());
      ends.push_back(whole.Content(kFirst).size());
    }
  }
  const std::string bytes = whole.Content(kFirst);
  for (size_t at = 0; at < bytes.size(); ++at) {
    SimFiles files;
    files.Put(kFirst, bytes);
    files.Content(kFirst)[at] ^= 0x10;
    Records read;
    const auto wal = Wal::Open(&files, kDir, 1, {}, Into(&read));
    size_t before = 0;
    while (before < 4 && ends[before + 1] <= at) ++before;
    // The last two: no record behind them says that they were durable.
    const bool in_header = at < kWalSegmentHeader;
    if (!in_header && before == 3) {
      EXPECT_TRUE(wal.ok()) << at;
      EXPECT_EQ(read.size(), before);
      continue;
    }
    if (in_header && at >= 8 && at < 12) {
      EXPECT_FALSE(wal.ok());
      continue;
    }
    ASSERT_FALSE(wal.ok()) << at;
    EXPECT_EQ(wal.status().code(), absl::StatusCode::kDataLoss) << wal.status();
    EXPECT_NE(Text(wal.status()).find(kFirst), std::string::npos);
    WalOptions salvage;
    salvage.read_only = true;
    salvage.allow_damage = true;
    Records saved;
    const auto reader = OpenOk(&files, &saved, salvage);
    EXPECT_EQ(saved.size(), before);
    EXPECT_NE(reader->damage(), "");
    EXPECT_EQ(files.Content(kFirst).size(), bytes.size());
  }
}

// The reader has a part of a segment in memory: what is bad, and what says that it had been
// durable, may be far from each other.
TEST(Wal, DamageFarBeforeTheRecordThatTells_IsReported) {
  SimFiles whole;
  Records written, none;
  std::vector<size_t> begins;
  {
    WalOptions options;
    options.ahead_bytes = 0;  // the file ends where its records do
    const auto wal = OpenOk(&whole, &none, options);
    for (const size_t size : {size_t{10}, size_t{5} << 20, size_t{20}, size_t{3} << 20}) {
      begins.push_back(whole.Content(kFirst).size());
      written.emplace_back(begins.size(), std::string(size, 'x'));
      ASSERT_TRUE(WriteOne(wal.get(), begins.size(), written.back().second).ok());
    }
  }
  const std::string bytes = whole.Content(kFirst);
  for (const size_t at : {begins[1] + kWalRecordHeader, begins[2] - 1, begins[1]}) {
    SimFiles files;
    files.Put(kFirst, bytes);
    files.Content(kFirst)[at] = static_cast<char>(files.Content(kFirst)[at] ^ 1);
    const auto wal = Wal::Open(&files, kDir, 1, {}, Into(&none));
    EXPECT_TRUE(absl::IsDataLoss(wal.status())) << wal.status();
    EXPECT_NE(Text(wal.status()).find("at byte " + std::to_string(begins[1])), std::string::npos)
        << wal.status();
  }
  // Nothing behind the last one tells of it: it was torn.
  for (const size_t size :
       {begins[3] + kWalRecordHeader, begins[3] + (size_t{2} << 20), bytes.size() - 1}) {
    SimFiles files;
    files.Put(kFirst, bytes.substr(0, size));
    Records read;
    ASSERT_NE(OpenOk(&files, &read), nullptr);
    EXPECT_EQ(read.size(), 3u);
    EXPECT_EQ(files.Content(kFirst).size(), begins[3]);
  }
}

// Bytes that say of themselves, again and again, that they are a long record.
TEST(Wal, DamageOfManyHeaders_IsReadOnceAndSummedInProportion) {
  SimFiles files;
  uint64_t state = 1;
  const auto header = [&](uint32_t length) {
    // Sequence 2, and nothing durable before: plausible wherever it stands.
    std::string bytes;
    for (const uint32_t word :
         {length, static_cast<uint32_t>(state *= 6364136223846793005u), 2u, 0u, 1u, 0u}) {
      bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    return bytes;
  };
  std::string segment = WalSegmentHead(0, 0);
  AppendWalRecords(1, 0, "first", &segment);
  const size_t damage = segment.size();
  constexpr size_t kHeaders = 400'000;
  for (size_t i = 0; i < kHeaders; ++i) segment += header(3 << 20);
  const size_t good = segment.size();
  AppendWalRecords(2, 1, "second", &segment);
  segment += std::string(4 << 20, '\0');  // so that each of the long ones is there
  ASSERT_TRUE((*files.Create(WalPath("db", 0)))->WriteAt(segment, 0).ok());

  WalSegmentReader reader(&files, "db", 0);
  ASSERT_TRUE(reader.ReadHead()->valid);
  WalRecord record;
  ASSERT_TRUE(*reader.ReadAt(kWalSegmentHeader, &record));
  EXPECT_FALSE(*reader.ReadAt(record.end, &record));
  ASSERT_TRUE(*reader.Find(damage + 1, 1, false, &record));
  EXPECT_EQ(record.begin, good);
  EXPECT_EQ(record.payload, "second");
  EXPECT_LE(reader.bytes_read(), segment.size());
  // Up to the first doubt all of a record; then each byte once, and some dozens for each header.
  EXPECT_LE(reader.bytes_summed(), 2 * kMaxWalRecord + 4 * segment.size());
  EXPECT_GT(reader.bytes_summed(), good - damage);
}

// Whole records that lie in the bytes of others, all of which are of old commits.
TEST(Wal, RecordsWithinRecords_AreSummedInProportion) {
  SimFiles files;
  // From the end on: a new record, before it an old one that has it and all behind it as payload.
  constexpr size_t kOld = size_t{256} << 10;
  constexpr uint64_t kRecords = 2000;
  std::string segment(kOld, '\0');
  for (uint64_t i = kRecords; i > 0; --i) {
    std::string small, old;
    AppendWalRecords(i + 1, i, "payload", &small);
    segment.insert(0, small);
    AppendWalRecords(1, 0, segment.substr(0, kOld), &old);
    segment.insert(0, old.substr(0, kWalRecordHeader));
  }
  std::string first = WalSegmentHead(0, 0);
  AppendWalRecords(1, 0, "first", &first);
  segment.insert(0, first);
  ASSERT_TRUE((*files.Create(WalPath("db", 0)))->WriteAt(segment, 0).ok());

  WalSegmentReader reader(&files, "db", 0);
  ASSERT_TRUE(reader.ReadHead()->valid);
  WalRecord record;
  bool at_end = false;
  uint64_t last = 0, found = 0;
  for (uint64_t at = kWalSegmentHeader;; at = record.end) {
    bool whole = *reader.ReadAt(at, &record, &at_end);
    if (at_end) break;
    if (!whole || record.sequence <= last) whole = *reader.Find(at + 1, last, false, &record);
    if (!whole) break;
    last = record.sequence;
    ++found;
  }
  EXPECT_EQ(found, kRecords + 1);
  EXPECT_LE(reader.bytes_read(), segment.size());
  EXPECT_LE(reader.bytes_summed(), 2 * kMaxWalRecord + 16 * segment.size());
}

TEST(Wal, MissingSegment_IsReported) {
  SimFiles files;
  WalOptions options;
  options.segment_bytes = 100;
  Records none;
  {
    const auto wal = OpenOk(&files, &none, options);
    for (uint64_t i = 1; i < 10; ++i)
      ASSERT_TRUE(WriteOne(wal.get(), i, std::string(60, 'x')).ok());
  }
  files.names().erase("db/00000002.wal");
  const auto wal = Wal::Open(&files, kDir, 1, options, Into(&none));
  EXPECT_EQ(wal.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(Text(wal.status()).find("00000002"), std::string::npos);
}

// No record is damaged: an older copy of a segment, say, before a newer one of the next.
TEST(Wal, SegmentThatLacksItsLastEntries_IsReported) {
  SimFiles files;
  Records none, read;
  size_t cut = 0;
  {
    const auto wal = OpenOk(&files, &none);
    ASSERT_TRUE(WriteOne(wal.get(), 1, "one").ok());
    cut = files.Content(kFirst).size();
    ASSERT_TRUE(WriteOne(wal.get(), 2, "two").ok());
    ASSERT_TRUE(wal->Roll().ok());
    ASSERT_TRUE(WriteOne(wal.get(), 3, "three").ok());
  }
  files.Content(kFirst).resize(cut);
  EXPECT_TRUE(absl::IsDataLoss(Wal::Open(&files, kDir, 1, {}, Into(&none)).status()));
  WalOptions reading;
  reading.read_only = true;
  reading.allow_damage = true;
  const auto wal = OpenOk(&files, &read, reading);
  EXPECT_NE(wal->damage().find("00000002"), std::string::npos) << wal->damage();
  EXPECT_EQ(read, (Records{{1, "one"}}));
}

TEST(Wal, FirstSegmentWithoutEntries_GoesOnAboveThoseBefore) {
  SimFiles files;
  Records read;
  files.Put(kFirst, WalSegmentHead(1, 20));
  EXPECT_EQ(OpenOk(&files, &read)->last_sequence(), 20u);
}

TEST(Wal, NoSpaceForOneOfAGroup_GivesTheErrorToItAlone) {
  SimFiles files;
  Records none;
  const auto wal = OpenOk(&files, &none);
  files.SetCapacity(10'000);
  const std::string huge(20'000, 'h');
  WalEntry entries[3] = {{1, "a", {}}, {2, huge, {}}, {3, "c", {}}};
  WalEntry* pointers[3] = {&entries[0], &entries[1], &entries[2]};
  wal->Write(pointers);
  EXPECT_TRUE(entries[0].result.ok()) << entries[0].result;
  EXPECT_EQ(entries[1].result.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(entries[2].result.ok()) << entries[2].result;
  EXPECT_TRUE(wal->failure().ok());
  Records read;
  OpenOk(files.AfterKill().get(), &read);
  EXPECT_EQ(read, (Records{{1, "a"}, {3, "c"}}));
}

TEST(Wal, SyncThatFailed_EndsTheLogForGood) {
  SimFiles files;
  Records none;
  const auto wal = OpenOk(&files, &none);
  ASSERT_TRUE(WriteOne(wal.get(), 1, "a").ok());
  files.FailAt(1, 1, true);
  EXPECT_FALSE(WriteOne(wal.get(), 2, "b").ok());
  const absl::Status later = WriteOne(wal.get(), 3, "c");
  EXPECT_FALSE(later.ok());
  EXPECT_NE(Text(later).find("open it again"), std::string::npos) << later;
}

TEST(Wal, RandomFaults_LoseNothingThatWasAcknowledged) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    SimFiles files;
    WalOptions options;
    options.segment_bytes = 200;
    options.ahead_from = round % 3 * 60;
    options.ahead_bytes = random() % 300;
    Records read, acknowledged;
    {
      const auto wal = OpenOk(&files, &read, options);
      files.FailAt(1 + random() % 40, 1 + random() % 3);
      for (uint64_t i = 1; i < 20; ++i) {
        const std::string payload = Payload(random, 60);
        if (WriteOne(wal.get(), i, payload).ok()) acknowledged.emplace_back(i, payload);
      }
      files.FailAt(0);
    }
    const auto after = round % 2 == 0 ? files.AfterPowerCut(random) : files.AfterKill();
    const auto wal = OpenOk(after.get(), &read, options);
    ASSERT_NE(wal, nullptr);
    // A write whose sync failed may be there, or not; what was acknowledged is.
    size_t found = 0;
    for (const auto& record : read) {
      if (found < acknowledged.size() && record == acknowledged[found]) ++found;
    }
    EXPECT_EQ(found, acknowledged.size());
  }
}

// Zeros behind the end: of a log that goes on, that was killed, closed, and that has a next
// segment.
TEST(Wal, WrittenAhead_EndsWhereItsRecordsEnd) {
  std::mt19937_64 random(TestSeed());
  WalOptions options;
  options.ahead_from = 100;
  options.ahead_bytes = 1000;
  for (int round = 0; round < 100; ++round) {
    SimFiles files;
    Records written, none;
    auto wal = OpenOk(&files, &none, options);
    size_t end = kWalSegmentHeader, longest = 0;
    for (uint64_t i = 1; i < 40; ++i) {
      written.emplace_back(i, Payload(random, 60));
      ASSERT_TRUE(WriteOne(wal.get(), i, written.back().second).ok());
      end += kWalRecordHeader + written.back().second.size();
      longest = std::max(longest, files.Content(kFirst).size() - end);
    }
    EXPECT_GE(longest, 900u);
    const auto after = round % 2 == 0 ? files.AfterPowerCut(random) : files.AfterKill();
    Records read;
    const auto again = OpenOk(after.get(), &read, options);
    EXPECT_EQ(read, written);
    EXPECT_EQ(after->Content(kFirst).size(), end);
    if (round % 4 < 2) {
      wal.reset();
    } else {
      ASSERT_TRUE(wal->Roll().ok());
    }
    EXPECT_EQ(files.Content(kFirst).size(), end);
    read.clear();
    const auto cut = files.AfterPowerCut(random);
    OpenOk(cut.get(), &read, options);
    EXPECT_EQ(read, written);
  }
}

TEST(Wal, NextSegmentCannotBeMade_WhatGoesOnOpensAgain) {
  WalOptions options;
  options.ahead_from = 0;
  options.ahead_bytes = 1000;
  for (int call = 1; call <= 6; ++call) {
    SimFiles files;
    Records none, read;
    const auto wal = OpenOk(&files, &none, options);
    ASSERT_TRUE(WriteOne(wal.get(), 1, "before").ok());
    files.FailAt(static_cast<uint64_t>(call));
    EXPECT_FALSE(wal->Roll().ok()) << call;
    files.FailAt(0);
    ASSERT_TRUE(WriteOne(wal.get(), 2, "after").ok());
    const auto after = files.AfterKill();
    // A third one was being written.
    after->Content(kFirst) += std::string(13, 'x');
    {
      const auto again = OpenOk(after.get(), &read, options);
      EXPECT_EQ(read, (Records{{1, "before"}, {2, "after"}})) << call;
      ASSERT_NE(again, nullptr);
      ASSERT_TRUE(WriteOne(again.get(), 3, "last").ok());
    }
    read.clear();
    OpenOk(after->AfterKill().get(), &read, options);
    EXPECT_EQ(read, (Records{{1, "before"}, {2, "after"}, {3, "last"}})) << call;
  }
}

TEST(Wal, WithoutSync_PowerCut_KeepsAFirstPart) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    SimFiles files;
    Records none, read, written;
    WalOptions options;
    options.sync = false;
    options.segment_bytes = 2000;
    const auto wal = OpenOk(&files, &none, options);
    uint64_t synced = 0;
    const uint64_t count = 1 + random() % 30;
    for (uint64_t sequence = 1; sequence <= count; ++sequence) {
      written.emplace_back(sequence, Payload(random, 400));
      ASSERT_TRUE(WriteOne(wal.get(), sequence, written.back().second).ok());
      if (random() % 10 != 0) continue;
      ASSERT_TRUE(wal->Sync().ok());
      synced = sequence;
    }
    const auto cut = files.AfterPowerCut(random);
    ASSERT_NE(OpenOk(cut.get(), &read, options), nullptr);
    EXPECT_GE(read.size(), synced);
    ASSERT_LE(read.size(), written.size());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), written.begin()));
  }
}

// A reader that meets the zeros of a place, and behind them what a writer wrote meanwhile.
TEST(Wal, ReadBesideItsWriter_IsNotDamaged) {
  class WritingFiles : public SimFiles {
   public:
    absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                         size_t size) override {
      if (offset > 0 && write) std::exchange(write, nullptr)();
      return SimFiles::ReadPart(path, offset, size);
    }
    std::function<void()> write;
  };
  WritingFiles files;
  Records none, read;
  const auto wal = OpenOk(&files, &none);
  const std::string payload(1000, 'x');
  uint64_t sequence = 0;
  // The log ends just before a reader's window does, and zeros lie behind it.
  while (kWalSegmentHeader + sequence * (1000 + kWalRecordHeader) < (size_t{1} << 20) - 2048) {
    ASSERT_TRUE(WriteOne(wal.get(), ++sequence, payload).ok());
  }
  files.write = [&] {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(WriteOne(wal.get(), ++sequence, payload).ok());
  };
  WalOptions options;
  options.read_only = true;
  OpenOk(&files, &read, options);
  EXPECT_EQ(files.write, nullptr);
  EXPECT_EQ(read.size(), sequence);
}

TEST(Wal, NoSpaceToWriteAhead_CommitsGoOn) {
  SimFiles files;
  Records none;
  WalOptions options;
  options.ahead_from = 0;
  options.ahead_bytes = 1000;
  const auto wal = OpenOk(&files, &none, options);
  files.SetCapacity(900);
  for (uint64_t i = 1; i <= 20; ++i) EXPECT_TRUE(WriteOne(wal.get(), i, "small").ok()) << i;
  files.SetCapacity(UINT64_MAX);
  Records read;
  OpenOk(files.AfterKill().get(), &read, options);
  EXPECT_EQ(read.size(), 20u);
}

TEST(Wal, RollAndRemove_KeepsWhatIsBehindTheCheckpoint) {
  SimFiles files;
  Records none;
  uint64_t from;
  {
    const auto wal = OpenOk(&files, &none);
    ASSERT_TRUE(WriteOne(wal.get(), 1, "old").ok());
    const auto rolled = wal->Roll();
    ASSERT_TRUE(rolled.ok());
    from = *rolled;
    ASSERT_TRUE(WriteOne(wal.get(), 2, "new").ok());
    ASSERT_TRUE(wal->RemoveBefore(from).ok());
  }
  EXPECT_TRUE(files.names().contains(kFirst));  // for who follows, until the next one
  Records read;
  const auto wal = OpenOk(&files, &read, {}, from);
  EXPECT_EQ(read, (Records{{2, "new"}}));
  EXPECT_TRUE(files.names().contains(kFirst));
  const auto rolled = wal->Roll();
  ASSERT_TRUE(rolled.ok());
  ASSERT_TRUE(wal->RemoveBefore(*rolled).ok());
  EXPECT_FALSE(files.names().contains(kFirst));
  EXPECT_TRUE(files.names().contains("db/00000002.wal"));
}

}  // namespace
}  // namespace pulse::graph
