#include "services/kv/queue_pair.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/kv/processing.h"

namespace pulse::kv {
namespace {

std::unique_ptr<Partition> OpenPartition() {
  PartitionOptions options;
  options.memory_bytes = uint64_t{32} << 20;
  auto opened = Partition::Open(options);
  EXPECT_TRUE(opened.ok());
  (*opened)->SetNow(1'000'000);
  return *std::move(opened);
}

struct Answered {
  WireStatus status;
  std::string value;
  bool operator==(const Answered&) const = default;
};

std::vector<Answered> ReadAll(const char* responses, size_t size, size_t count) {
  BatchHeader header;
  std::memcpy(&header, responses, sizeof(header));
  EXPECT_EQ(header.count, count);
  std::vector<Answered> all;
  const ResponseReader reader(responses, size);
  for (size_t i = 0; i < count; ++i) {
    ResponseDescriptor d;
    std::string_view value;
    EXPECT_TRUE(reader.Read(i, &d, &value));
    all.push_back({d.status, std::string(value)});
  }
  return all;
}

// The agent and the host on threads of their own: every batch is answered, in its order, as a map
// would.
TEST(QueuePairTest, TwoThreads_RandomBatches_AnswerAsAMap) {
  QueuePairOptions options;
  options.slots = 2;
  options.batch = 64;
  options.buffer_bytes = 64 << 10;
  QueuePair queue(options);
  constexpr int kBatches = 3000;
  std::thread host([&] {
    auto partition = OpenPartition();
    BatchCounts counts;
    Lookahead lookahead;
    for (int done = 0; done < kBatches;) {
      const char* requests = queue.PeekRequests();
      if (requests == nullptr) {
        std::this_thread::yield();
        continue;
      }
      EXPECT_TRUE(ProcessBatch(partition.get(),
                               {requests,
                                queue.ResponseBufferOfOldest(),
                                options.buffer_bytes,
                                options.batch,
                                0,
                                {},
                                {&lookahead, queue.PeekNext(), queue.ResponseBufferOfNext()}},
                               {.trusted = done % 2 == 0}, &counts)
                      .whole);
      queue.Answer();
      ++done;
    }
    EXPECT_GT(counts.requests, 0u);
  });
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  std::map<std::string, std::string> model;
  std::vector<std::vector<Answered>> expected;
  int submitted = 0;
  int taken = 0;
  while (taken < kBatches) {
    if (const char* responses = queue.PeekResponses(); responses != nullptr) {
      const auto& batch = expected[static_cast<size_t>(taken)];
      ASSERT_EQ(ReadAll(responses, options.buffer_bytes, batch.size()), batch) << taken;
      queue.TakeResponses();
      ++taken;
    } else if (submitted < kBatches && queue.HasRoom()) {
      RequestWriter writer = queue.BeginRequests();
      std::vector<Answered>& batch = expected.emplace_back();
      const size_t count = random() % (options.batch + 1);
      for (size_t i = 0; i < count; ++i) {
        const std::string key = std::string(random() % 20, 'k') + std::to_string(random() % 300);
        const std::string value(random() % 30, static_cast<char>('a' + random() % 26));
        const uint64_t draw = random() % 10;
        const WireOp op = draw < 5 ? WireOp::kGet : draw < 9 ? WireOp::kSet : WireOp::kDelete;
        ASSERT_TRUE(writer.Add(op, key, HashKey(key), op == WireOp::kSet ? value : "", 0));
        const auto it = model.find(key);
        const bool exists = it != model.end();
        if (op == WireOp::kGet) {
          batch.push_back(
              {exists ? WireStatus::kOk : WireStatus::kNotFound, exists ? it->second : ""});
        } else if (op == WireOp::kSet) {
          model[key] = value;
          batch.push_back({WireStatus::kOk, ""});
        } else {
          if (exists) model.erase(it);
          batch.push_back({exists ? WireStatus::kOk : WireStatus::kNotFound, ""});
        }
      }
      writer.Finish();
      queue.Submit();
      ++submitted;
    } else {
      std::this_thread::yield();
    }
  }
  host.join();
}

// The system has failed. What was tried counts, so that the next one of the batch has to wait.
TEST(QueuePairTest, FarValueThatCannotBeRead_IsRefused_AndTheOldOneStays) {
  auto partition = OpenPartition();
  std::vector<char> requests(64 << 10);
  std::vector<char> responses(64 << 10);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // no such call works on it
  const std::string old(200'000, 'o');
  Item* item = nullptr;
  ASSERT_EQ(partition->Put("key", HashKey("key"), old.size(), {}, &item),
            Partition::Result::kStored);
  std::memcpy(item->value_bytes(), old.data(), old.size());
  const PartitionNumbers before = partition->numbers();
  for (const size_t size : {old.size(), old.size() / 2, old.size() * 9}) {
    for (const std::string key : {"key", "new key"}) {
      for (const bool is_second : {false, true}) {
        RequestWriter writer(requests.data(), requests.size(), 16);
        std::vector<Answered> expected;
        if (is_second) {
          ASSERT_TRUE(writer.AddFar(WireOp::kSet, "other", HashKey("other"), size, 0, 0));
          expected.push_back({WireStatus::kMalformed, ""});
        }
        ASSERT_TRUE(writer.AddFar(WireOp::kSet, key, HashKey(key), size, 0, 0));
        expected.push_back({WireStatus::kMalformed, ""});
        writer.Finish();
        BatchCounts counts;
        ProcessBatch(partition.get(),
                     {requests.data(),
                      responses.data(),
                      responses.size(),
                      16,
                      0,
                      {.fd = ends[0], .bytes = uint64_t{512} << 20}},
                     {}, &counts);
        EXPECT_EQ(ReadAll(responses.data(), responses.size(), expected.size()), expected);
        EXPECT_EQ(partition->Find("new key", HashKey("new key")), nullptr);
        EXPECT_EQ(partition->Find("other", HashKey("other")), nullptr);
        item = partition->Find("key", HashKey("key"));
        ASSERT_NE(item, nullptr);
        EXPECT_TRUE(item->value() == old);
      }
    }
  }
  EXPECT_EQ(partition->numbers().items, before.items);
  EXPECT_EQ(partition->numbers().item_bytes, before.item_bytes);
  close(ends[0]);
  close(ends[1]);
}

TEST(QueuePairTest, Next_IsTheBatchBehindTheOldest) {
  QueuePair queue({.slots = 2, .batch = 4, .buffer_bytes = 4096});
  const auto submit = [&queue] {
    RequestWriter writer = queue.BeginRequests();
    writer.Add(WireOp::kGet, "a", 1, "", 0);
    writer.Finish();
    queue.Submit();
  };
  EXPECT_EQ(queue.PeekNext(), nullptr);
  submit();
  EXPECT_EQ(queue.PeekNext(), nullptr);
  submit();
  const char* const next = queue.PeekNext();
  char* const responses = queue.ResponseBufferOfNext();
  ASSERT_NE(next, nullptr);
  queue.Answer();
  EXPECT_EQ(queue.PeekRequests(), next);
  EXPECT_EQ(queue.ResponseBufferOfOldest(), responses);
  EXPECT_EQ(queue.PeekNext(), nullptr);
}

TEST(QueuePairTest, Transfer_OfSmallItems_HasTheSizesOfThePaper) {
  std::vector<char> requests(64 << 10);
  std::vector<char> responses(64 << 10);
  RequestWriter writer(requests.data(), requests.size(), 256);
  for (int i = 0; i < 64; ++i) {
    const std::string key = std::to_string(10'000'000 + i);
    ASSERT_TRUE(writer.Add(WireOp::kSet, key, HashKey(key), "12345678", 0));
  }
  EXPECT_EQ(writer.Finish(), 8u + 64 * 32);
  auto partition = OpenPartition();
  BatchCounts counts;
  EXPECT_EQ(
      ProcessBatch(partition.get(), {requests.data(), responses.data(), responses.size(), 256},
                   {.trusted = true}, &counts)
          .bytes,
      8u + 64 * 16);
  EXPECT_EQ(counts.request_bytes, 8u + 64 * 32);
}

TEST(QueuePairTest, Writer_FullBatchOrBuffer_TakesNoMore) {
  std::vector<char> buffer(4096);
  RequestWriter few(buffer.data(), buffer.size(), 2);
  EXPECT_TRUE(few.Add(WireOp::kGet, "a", 1, "", 0));
  EXPECT_TRUE(few.Add(WireOp::kGet, "a", 1, "", 0));
  EXPECT_FALSE(few.Add(WireOp::kGet, "a", 1, "", 0));
  RequestWriter large(buffer.data(), buffer.size(), 2);
  EXPECT_FALSE(large.Add(WireOp::kSet, "a", 1, std::string(5000, 'v'), 0));
  EXPECT_TRUE(large.Add(WireOp::kSet, "a", 1, std::string(3000, 'v'), 0));
  EXPECT_FALSE(large.Add(WireOp::kSet, "b", 1, std::string(3000, 'v'), 0));
}

// Responses that do not fit into one transfer come in parts, in order; each side has its own object
// over the same memory.
TEST(QueuePairTest, Responses_LargerThanABuffer_ComeInParts) {
  constexpr QueuePairOptions options = {.slots = 2, .batch = 16, .buffer_bytes = 8192};
  alignas(4096) static char memory[QueuePair::BytesFor(options)];
  QueuePair agent(options, memory);
  QueuePair host(options, memory);
  auto partition = OpenPartition();
  Item* item = nullptr;
  ASSERT_EQ(partition->Put("large", HashKey("large"), 3000, {}, &item), Partition::Result::kStored);
  std::memset(item->value_bytes(), 'v', 3000);
  ASSERT_EQ(partition->Put("larger", HashKey("larger"), 8000, {}, &item),
            Partition::Result::kStored);
  std::vector<Answered> expected;
  for (int batch = 0; batch < 2; ++batch) {
    RequestWriter writer = agent.BeginRequests();
    for (int i = 0; i < 16; ++i) {
      const std::string key = i % 5 == 4 ? "none" : "large";
      ASSERT_TRUE(writer.Add(WireOp::kGet, key, 0, "", 0));
      expected.push_back(i % 5 == 4 ? Answered{WireStatus::kNotFound, ""}
                                    : Answered{WireStatus::kOk, std::string(3000, 'v')});
    }
    writer.Finish();
    agent.Submit();
  }
  EXPECT_FALSE(agent.HasRoom());
  std::vector<Answered> all;
  BatchCounts counts;
  int parts = 0;
  while (all.size() < expected.size()) {
    const char* requests = host.PeekRequests();
    ASSERT_NE(requests, nullptr);
    const BatchResult result = ProcessBatch(partition.get(),
                                            {requests, host.ResponseBufferOfOldest(),
                                             options.buffer_bytes, options.batch, host.first()},
                                            {}, &counts);
    if (result.whole) {
      host.Answer();
    } else {
      host.AnswerPart(result.answered);
      // The buffer is the agent's until it has taken this part.
      EXPECT_EQ(host.PeekRequests(), nullptr);
      ++parts;
    }
    const char* responses = agent.PeekResponses();
    ASSERT_NE(responses, nullptr);
    const auto some = ReadAll(responses, options.buffer_bytes, result.answered);
    all.insert(all.end(), some.begin(), some.end());
    agent.TakeResponses(result.whole);
  }
  EXPECT_EQ(all, expected);
  EXPECT_GT(parts, 4);
  EXPECT_EQ(host.PeekRequests(), nullptr);
  EXPECT_TRUE(agent.HasRoom());
  // One that fits into no transfer says its size.
  RequestWriter writer = agent.BeginRequests();
  ASSERT_TRUE(writer.Add(WireOp::kGet, "larger", 0, "", 0));
  writer.Finish();
  agent.Submit();
  ProcessBatch(
      partition.get(),
      {host.PeekRequests(), host.ResponseBufferOfOldest(), options.buffer_bytes, options.batch}, {},
      &counts);
  host.Answer();
  ResponseDescriptor d;
  std::string_view value;
  ASSERT_TRUE(ResponseReader(agent.PeekResponses(), options.buffer_bytes).Read(0, &d, &value));
  EXPECT_EQ(d.status, WireStatus::kTooLarge);
  EXPECT_EQ(d.value, 8000u);
}

TEST(QueuePairTest, Counters_OutOfRange_AreCorrupt) {
  constexpr QueuePairOptions options = {.slots = 2, .batch = 16, .buffer_bytes = 8192};
  alignas(4096) static char memory[QueuePair::BytesFor(options)];
  QueuePair agent(options, memory);
  QueuePair host(options, memory);
  const char* found = nullptr;
  EXPECT_EQ(host.FindRequests(&found), QueuePair::Found::kNothing);
  EXPECT_EQ(agent.FindResponses(&found), QueuePair::Found::kNothing);
  // What the other side has counted: batches, and transfers of responses.
  auto* submitted = reinterpret_cast<std::atomic<uint64_t>*>(memory);
  auto* answered = reinterpret_cast<std::atomic<uint64_t>*>(memory + 64);
  for (const uint64_t evil : {uint64_t{3}, uint64_t{1} << 63, ~uint64_t{0}}) {
    submitted->store(evil);
    answered->store(evil);
    EXPECT_EQ(host.FindRequests(&found), QueuePair::Found::kCorrupt) << evil;
    EXPECT_EQ(agent.FindResponses(&found), QueuePair::Found::kCorrupt) << evil;
  }
  answered->store(1);
  EXPECT_EQ(agent.FindResponses(&found), QueuePair::Found::kCorrupt) << "nothing is under way";
}

TEST(QueuePairTest, OneWay_AnsweredMessages_ReturnTheirBuffers) {
  QueuePairOptions options;
  options.slots = 2;
  options.batch = 4;
  options.buffer_bytes = 4096;
  options.one_way = true;
  QueuePair pair(options);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(pair.HasRoom());
      RequestWriter writer = pair.BeginRequests();
      ASSERT_TRUE(writer.Add(WireOp::kGet, "a key of some length", 0, "", 0));
      writer.Finish();
      pair.Submit();
    }
    EXPECT_TRUE(pair.Reclaim());
    EXPECT_FALSE(pair.HasRoom());
    const char* requests = nullptr;
    ASSERT_EQ(pair.FindRequests(&requests), QueuePair::Found::kBatch);
    pair.Answer();
    EXPECT_TRUE(pair.Reclaim());
    EXPECT_TRUE(pair.HasRoom());
    ASSERT_EQ(pair.FindRequests(&requests), QueuePair::Found::kBatch);
    pair.Answer();
    EXPECT_TRUE(pair.Reclaim());
    EXPECT_EQ(pair.FindRequests(&requests), QueuePair::Found::kNothing);
  }
  // More than there were.
  pair.Answer();
  EXPECT_FALSE(pair.Reclaim());
}

TEST(ProcessBatchTest, TimeToLive_OfASet_BeginsNow) {
  std::vector<char> requests(4096);
  std::vector<char> responses(4096);
  auto partition = OpenPartition();
  for (const int64_t ttl : {int64_t{500}, INT64_MAX - 10}) {
    RequestWriter writer(requests.data(), requests.size(), 4);
    ASSERT_TRUE(writer.Add(WireOp::kSet, "k", HashKey("k"), "v", ttl, kTtl));
    writer.Finish();
    BatchCounts counts;
    ProcessBatch(partition.get(), {requests.data(), responses.data(), 4096, 4}, {}, &counts);
    EXPECT_EQ(ReadAll(responses.data(), 4096, 1)[0].status,
              ttl == 500 ? WireStatus::kOk : WireStatus::kMalformed);
  }
  const Item* item = partition->Find("k", HashKey("k"));
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(item->expires_ms(), 1'000'500);
}

TEST(ProcessBatchTest, Expiry_OfASet_IsKept) {
  std::vector<char> requests(4096);
  std::vector<char> responses(4096);
  RequestWriter writer(requests.data(), requests.size(), 4);
  ASSERT_TRUE(writer.Add(WireOp::kSet, "k", HashKey("k"), "v", 1'000'500));
  ASSERT_TRUE(writer.Add(WireOp::kGet, "k", HashKey("k"), "", 0));
  writer.Finish();
  auto partition = OpenPartition();
  BatchCounts counts;
  ProcessBatch(partition.get(), {requests.data(), responses.data(), 4096, 4}, {}, &counts);
  EXPECT_EQ(ReadAll(responses.data(), 4096, 2),
            (std::vector<Answered>{{WireStatus::kOk, ""}, {WireStatus::kOk, "v"}}));
  partition->SetNow(1'000'500);
  EXPECT_EQ(partition->Find("k", HashKey("k")), nullptr);
}

// A hostile agent: any bytes in the buffer. Whatever makes no sense is refused by itself, the
// requests around it are carried out, and nothing outside of the buffer is read.
TEST(ProcessBatchTest, HostileRequests_AreRefusedOneByOne) {
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  auto partition = OpenPartition();
  constexpr size_t kSize = 8192;
  constexpr size_t kMost = 64;
  for (int round = 0; round < 3000; ++round) {
    // Of exactly this size, so that a sanitizer sees what is outside.
    std::vector<char> requests(kSize);
    std::vector<char> responses(kSize);
    RequestWriter writer(requests.data(), kSize, kMost);
    for (size_t i = 0; i < kMost; ++i) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_TRUE(writer.Add(WireOp::kSet, key, HashKey(key), "value of 11", 0));
    }
    writer.Finish();
    const uint64_t changes = 1 + random() % 40;
    for (uint64_t change = 0; change < changes; ++change) {
      requests[random() % (8 + kMost * 32)] = static_cast<char>(random());
    }
    BatchCounts counts;
    const BatchResult result = ProcessBatch(
        partition.get(), {requests.data(), responses.data(), kSize, kMost}, {}, &counts);
    ASSERT_LE(result.bytes, kSize);
    ASSERT_LE(result.answered, kMost);
    ASSERT_LE(counts.requests, kMost);
  }
  // What was stored is whole.
  uint64_t cursor = 0;
  do {
    cursor = partition->Scan(cursor, [&](const Item& item) {
      EXPECT_EQ(partition->Peek(item.key(), HashKey(item.key())), &item);
    });
  } while (cursor != 0);
}

}  // namespace
}  // namespace pulse::kv
