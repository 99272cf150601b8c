#include "services/offload/engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "services/offload/range_guard.h"
#include "services/offload/test_bench.h"

namespace pulse::offload::test {
namespace {

using testing_util::Eventually;

const Program kAnyOrder = MakeProgram(Order::kAny);
const Program kInOrder = MakeProgram(Order::kRequest);

TEST(RangeGuardTest, Read_ChangeUnderWayOrMeanwhile_DoesNotCount) {
  RangeGuard guard(1 << 12);
  RangeGuard::Look look;
  constexpr uint64_t k64 = RangeGuard::kRange;
  ASSERT_TRUE(guard.Before(7, 0, 4096, &look));
  EXPECT_TRUE(guard.After(look));
  // Began and ended between the looks; or is under way at the first, or at the second.
  guard.Begin(7, 0, 4096);
  guard.End(7, 0, 4096);
  EXPECT_FALSE(guard.After(look));
  guard.Begin(7, 0, 4096);
  EXPECT_FALSE(guard.Before(7, 0, 4096, &look));
  EXPECT_FALSE(guard.Before(7, k64 - 4096, 8192, &look));  // its first range
  EXPECT_TRUE(guard.Before(7, k64, 4096, &look));
  EXPECT_TRUE(guard.Before(8, 0, 4096, &look));
  guard.Begin(7, 4096, 8192);
  guard.End(7, 0, 4096);
  EXPECT_FALSE(guard.Before(7, 0, 4096, &look));
  guard.End(7, 4096, 8192);
  ASSERT_TRUE(guard.Before(7, 0, 4096, &look));
  guard.Begin(7, k64 - 4096, k64 + 4096);
  EXPECT_FALSE(guard.After(look));
  guard.End(7, k64 - 4096, k64 + 4096);
  // Of the whole file; so long that it counts as that.
  ASSERT_TRUE(guard.Before(7, 5 * k64, 4096, &look));
  guard.BeginFile(7);
  EXPECT_FALSE(guard.After(look));
  EXPECT_FALSE(guard.Before(7, 9 * k64, 1, &look));
  guard.EndFile(7);
  ASSERT_TRUE(guard.Before(7, 5 * k64, 4096, &look));
  guard.Begin(7, 0, 1000 * k64);
  EXPECT_FALSE(guard.After(look));
  guard.End(7, 0, 1000 * k64);
  EXPECT_FALSE(guard.After(look));
  EXPECT_TRUE(guard.Before(7, 5 * k64, 4096, &look));
  // Longer than can be remembered.
  EXPECT_FALSE(guard.Before(7, 0, RangeGuard::kMostLooks * k64, &look));
}

class EngineParamTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Copying, EngineParamTest, testing::Bool());

// Offsets and sizes of all kinds: each answered by the agent, with the bytes of the file.
TEST_P(EngineParamTest, Reads_AnyOffsetAndSize_AreAnsweredFromTheStore) {
  Setting s({.program = &kAnyOrder, .copying = GetParam()});
  TestClient client = s.NewClient();
  std::mt19937_64 random(testing_util::TestSeed());
  std::string all;
  for (uint64_t b = 0; b < 256; ++b) all += Stamped(1000 + b, 4096);
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> asked;
  uint64_t bytes = 0;
  for (uint64_t id = 1; id <= 600; ++id) {
    // The store's segments have 64 KiB: some reads cross from one to the next.
    const auto size = static_cast<uint32_t>(1 + random() % (id % 3 == 0 ? 40000 : 3000));
    const uint64_t offset = random() % (all.size() - size);
    asked[id] = {offset, size};
    bytes += size;
    ASSERT_TRUE(client.Ask({s.ReadOf(id, offset, size)}));
    if (id % 16 != 0) continue;
    while (asked.size() > 4) {
      const Answer a = client.Next();
      ASSERT_FALSE(a.ended);
      const auto it = asked.find(a.header.id);
      ASSERT_NE(it, asked.end());
      ASSERT_EQ(a.data, all.substr(it->second.first, it->second.second));
      ASSERT_EQ(a.header.by_agent, 1u) << "id " << a.header.id;
      asked.erase(it);
    }
  }
  while (!asked.empty()) {
    const Answer a = client.Next();
    ASSERT_FALSE(a.ended);
    asked.erase(a.header.id);
  }
  EXPECT_EQ(s.Count(EngineStats::kOffloaded), 600u);
  EXPECT_EQ(s.Count(EngineStats::kBytes), bytes);
  EXPECT_EQ(s.host->requests.load(), 0u);
}

TEST(EngineTest, MixedMessage_AnyOrderOrInOrder_IsSplitOrGoesToHost) {
  for (const Program* program : {&kAnyOrder, &kInOrder}) {
    Setting s({.program = program});
    TestClient client = s.NewClient();
    ASSERT_TRUE(client.Ask({s.ReadOf(1, 0, 100),
                            {2, s.file_id, 4096, 100, Op::kReadOnHost},
                            {3, 0, 0, 0, Op::kAnswer},
                            {4, 0, 0, 0, Op::kSilent},
                            s.ReadOf(5, 8192, 10)}));
    std::map<uint64_t, Answer> answers;
    for (const uint64_t id : {1, 2, 3, 5}) {
      const Answer a = client.Next();
      ASSERT_FALSE(a.ended);
      if (program->order == Order::kRequest) {
        EXPECT_EQ(a.header.id, id);
      }
      answers[a.header.id] = a;
    }
    // In order, what comes behind a request that the host has goes there as well: here all, as the
    // program has given an answer that the host's part might change.
    const uint32_t by_agent = program->order == Order::kAny ? 1 : 0;
    EXPECT_EQ(answers[1].header.by_agent, by_agent);
    EXPECT_EQ(answers[1].data, Stamped(1000, 104).substr(0, 100));
    EXPECT_EQ(answers[2].header.by_agent, 0u);
    EXPECT_EQ(answers[2].data, Stamped(1001, 104).substr(0, 100));
    EXPECT_EQ(answers[3].header.by_agent, by_agent);
    EXPECT_EQ(answers[5].data, Stamped(1002, 16).substr(0, 10));
    EXPECT_EQ(answers[5].header.by_agent, by_agent);
    EXPECT_TRUE(Eventually([&] { return s.host->requests >= 2; }));
  }
}

TEST(EngineTest, InOrder_RequestsBehindTheHosts_GoToTheHostToo) {
  Setting s({.program = &kInOrder});
  TestClient client = s.NewClient();
  ASSERT_TRUE(client.Ask({s.ReadOf(1, 0, 100),
                          {2, 0, 0, 0, Op::kAnswer},
                          {3, s.file_id, 4096, 100, Op::kReadOnHost},
                          s.ReadOf(4, 8192, 10)}));
  for (const auto& [id, by_agent] : {std::pair<uint64_t, uint32_t>{1, 1}, {2, 1}, {3, 0}, {4, 0}}) {
    const Answer a = client.Next();
    EXPECT_EQ(a.header.id, id);
    EXPECT_EQ(a.header.by_agent, by_agent) << id;
  }
  // An answer behind a message that the host has not answered, as they come together.
  const uint64_t before = s.Count(EngineStats::kOrder);
  const std::vector<Request> two = {{5, s.file_id, 4096, 100, Op::kReadOnHost},
                                    {6, 0, 0, 0, Op::kAnswer}};
  ASSERT_TRUE(client.Send(MessageOf({two[0]}) + MessageOf({two[1]})));
  EXPECT_EQ(client.Next().header.id, 5u);
  const Answer last = client.Next();
  EXPECT_EQ(last.header.id, 6u);
  EXPECT_EQ(last.header.by_agent, 0u);
  EXPECT_GT(s.Count(EngineStats::kOrder), before);
}

// What the store does not have, or what is no range at all, the host answers.
TEST(EngineTest, Read_NotThereOrTooLong_GoesToTheHost) {
  Setting s({.program = &kAnyOrder});
  TestClient client = s.NewClient();
  const uint64_t end = uint64_t{1} << 20;
  // Past the end; over it; written, but not synced; in a hole.
  EXPECT_EQ(client.Do(s.ReadOf(1, end, 10)).header.by_agent, 0u);
  EXPECT_EQ(client.Do(s.ReadOf(2, end - 5, 10)).data.size(), 5u);
  ASSERT_EQ(s.files->Write(s.file, end, Stamped(77, 8192)).status, absl::OkStatus());
  Answer a = client.Do(s.ReadOf(3, end, 8192));
  EXPECT_EQ(a.header.by_agent, 0u);
  EXPECT_EQ(a.data, Stamped(77, 8192));
  ASSERT_EQ(s.files->Sync(s.file), absl::OkStatus());
  a = client.Do(s.ReadOf(4, end, 8192));
  EXPECT_EQ(a.header.by_agent, 1u);
  EXPECT_EQ(a.data, Stamped(77, 8192));
  ASSERT_EQ(s.files->SetSize(s.file, end + 65536), absl::OkStatus());
  a = client.Do(s.ReadOf(5, end + 8192, 4096));
  EXPECT_EQ(a.header.by_agent, 0u);
  EXPECT_EQ(a.data, std::string(4096, '\0'));
  EXPECT_EQ(s.Count(EngineStats::kNotThere), 4u);
  // No bytes; no such file; longer than a buffer.
  EXPECT_EQ(client.Do(s.ReadOf(6, 0, 0)).header.by_agent, 0u);
  EXPECT_EQ(client.Do({7, 12345, 0, 10, Op::kRead}).header.by_agent, 0u);
  EXPECT_EQ(client.Do(s.ReadOf(8, 100, 64 << 10)).header.by_agent, 0u);
  EXPECT_EQ(s.Count(EngineStats::kFull), 1u);
}

TEST(EngineTest, Read_OfAChangingRange_GoesToTheHost) {
  Setting s({.program = &kAnyOrder});
  TestClient client = s.NewClient();
  EXPECT_EQ(client.Do(s.ReadOf(1, 0, 10)).header.by_agent, 1u);
  s.engine->guard()->Begin(s.file_id, 0, 4096);
  EXPECT_EQ(client.Do(s.ReadOf(2, 60 << 10, 10)).header.by_agent, 0u);
  EXPECT_EQ(client.Do(s.ReadOf(3, 64 << 10, 10)).header.by_agent, 1u);
  s.engine->guard()->End(s.file_id, 0, 4096);
  EXPECT_EQ(client.Do(s.ReadOf(4, 0, 10)).header.by_agent, 1u);
  EXPECT_EQ(s.Count(EngineStats::kChanged), 1u);
}

TEST(EngineTest, Read_OfACutOrRemovedFile_GoesToTheHost) {
  Setting s({.program = &kAnyOrder});
  TestClient client = s.NewClient();
  ASSERT_EQ(s.files->SetSize(s.file, 4096), absl::OkStatus());
  EXPECT_EQ(client.Do(s.ReadOf(1, 0, 4096)).header.by_agent, 1u);
  EXPECT_EQ(client.Do(s.ReadOf(2, 4096, 10)).header.by_agent, 0u);
  // A second file, removed: also while it is open.
  const files::Completion other = s.files->Create("d", "g");
  ASSERT_EQ(s.files->Write(other.file, 0, Stamped(5, 4096)).status, absl::OkStatus());
  ASSERT_EQ(s.files->Sync(other.file), absl::OkStatus());
  const Request read{3, other.attributes.id, 0, 4096, Op::kRead};
  EXPECT_EQ(client.Do(read).data, Stamped(5, 4096));
  ASSERT_EQ(s.files->Wait(s.library->RemoveFile(s.files->poll(), "d", "g", 0)).status,
            absl::OkStatus());
  EXPECT_EQ(client.Do(read).header.by_agent, 0u);
  EXPECT_EQ(s.Count(EngineStats::kNotThere), 2u);
  // Then its number names nothing any more.
  ASSERT_EQ(s.files->Close(other.file), absl::OkStatus());
  EXPECT_EQ(client.Do(read).header.by_agent, 0u);
}

// With two contexts, or one buffer, most reads of a burst go to the host; all are answered.
TEST(EngineTest, Reads_MoreThanThereIsRoomFor_AreAllAnswered) {
  for (const bool contexts : {true, false}) {
    Setting s(
        {.program = &kAnyOrder, .contexts = contexts ? 2u : 64u, .buffers = contexts ? 64u : 1u});
    TestClient client = s.NewClient();
    std::vector<Request> burst;
    for (uint64_t id = 1; id <= 40; ++id) burst.push_back(s.ReadOf(id, (id - 1) * 4096, 4096));
    ASSERT_TRUE(client.Ask(burst));
    for (int i = 0; i < 40; ++i) {
      const Answer a = client.Next();
      ASSERT_EQ(a.data, Stamped(999 + a.header.id, 4096));
    }
    EXPECT_GT(s.Count(EngineStats::kFull), 0u);
    EXPECT_GT(s.Count(EngineStats::kOffloaded), 0u);
    EXPECT_EQ(s.Count(EngineStats::kOffloaded) + s.Count(EngineStats::kFull), 40u);
  }
}

// One connection's requests take effect in order, whoever carries them out.
TEST(EngineTest, Reads_InOrderAmongWrites_SeeThoseBeforeAndNoneBehind) {
  Setting s({.program = &kInOrder});
  TestClient client = s.NewClient();
  std::mt19937_64 random(testing_util::TestSeed());
  uint64_t stamp[8];
  for (uint64_t b = 0; b < 8; ++b) stamp[b] = 1000 + b;
  std::vector<std::pair<uint64_t, uint64_t>> expected;  // id, stamp; 0: a write's
  uint64_t id = 5000;
  for (int round = 0; round < 300; ++round) {
    std::vector<Request> message;
    const size_t n = 1 + random() % 6;
    for (size_t i = 0; i < n; ++i) {
      const uint64_t block = random() % 8;
      ++id;
      if (random() % 4 == 0) {
        message.push_back({id, s.file_id, block * 4096, 4096, Op::kWrite});
        stamp[block] = id;
        expected.emplace_back(id, 0);
      } else {
        message.push_back(s.ReadOf(id, block * 4096, 4096));
        expected.emplace_back(id, stamp[block]);
      }
    }
    ASSERT_TRUE(client.Ask(message));
    if (round % 4 != 0) continue;
    for (const auto& [want, value] : expected) {
      const Answer a = client.Next();
      ASSERT_EQ(a.header.id, want);
      if (value != 0) {
        ASSERT_EQ(a.data, Stamped(value, 4096)) << want;
      }
    }
    expected.clear();
  }
  EXPECT_GT(s.Count(EngineStats::kOffloaded), 0u);
  EXPECT_GT(s.Count(EngineStats::kOrder), 0u);
}

TEST(EngineTest, Cache_OnWriteAndRead_GainsAndLosesKeys) {
  Setting s({.program = &kAnyOrder});
  TestClient client = s.NewClient();
  const auto lookup = [&](uint64_t key) { return client.Do({1, 0, key, 0, Op::kLookup}); };
  // The blocks of the set-up: each write of 64 KiB said where its first stamp lies.
  Answer a = lookup(1016);
  EXPECT_EQ(a.header.by_agent, 1u);
  EXPECT_EQ(a.data.substr(0, 4096), Stamped(1016, 4096));
  EXPECT_EQ(a.data.size(), 64u << 10);
  EXPECT_EQ(lookup(1017).header.by_agent, 0u);
  // Before the host hears of its write, the table has it.
  for (uint64_t key = 100; key < 200; ++key) {
    ASSERT_EQ(s.files->Write(s.file, key * 4096, Stamped(key, 4096)).status, absl::OkStatus());
    a = lookup(key);
    ASSERT_EQ(a.header.by_agent, 1u) << key;
    ASSERT_EQ(a.data, Stamped(key, 4096));
  }
  // A read at `offset` erases the key of that name before it is answered.
  for (uint64_t key = 100; key < 200; ++key) {
    ASSERT_EQ(s.files->Read(s.file, key, 1).size(), 1u);
    ASSERT_EQ(lookup(key).header.by_agent, 0u) << key;
  }
}

TEST(EngineTest, Requests_WithoutAHost_ReadsGoOnAndTheRestFail) {
  Setting s({.program = &kAnyOrder, .host = false});
  TestClient client = s.NewClient();
  EXPECT_EQ(client.Do(s.ReadOf(1, 0, 10)).header.by_agent, 1u);
  const Answer a = client.Do({2, s.file_id, 0, 4096, Op::kWrite});
  EXPECT_EQ(a.header.status, static_cast<uint32_t>(Error::kHostDown));
  EXPECT_EQ(a.header.id, 2u);
  EXPECT_EQ(client.Do(s.ReadOf(3, 0, 10)).header.status, 0u);
}

// The program can name all of its requests, however long a message is.
TEST(EngineTest, Error_MessageOfAnyLength_IsToldOfTheWhole) {
  static const Program program = [] {
    Program p = kAnyOrder;
    p.predicate = nullptr;
    p.replies = nullptr;
    p.error = [](void*, const char* request, size_t size, Error error, char* out, size_t) {
      ReplyHeader h{sizeof(h), static_cast<uint32_t>(error), 0, 1};
      const uint32_t count = request == nullptr ? 0 : CountOf(request);
      if (count > 0 && size == sizeof(Message) + count * sizeof(Request)) {
        h.id = RequestAt(request, count - 1).id;
      }
      memcpy(out, &h, sizeof(h));
      return sizeof(h);
    };
    return p;
  }();
  Setting s({.program = &program, .host = false});
  TestClient client = s.NewClient();
  for (const uint64_t count : {10, 500}) {
    std::vector<Request> requests;
    for (uint64_t id = 1; id <= count; ++id) requests.push_back(s.ReadOf(id, 0, 10));
    EXPECT_EQ(requests.size() * sizeof(Request) > kMaxRequestBytes, count == 500);
    ASSERT_TRUE(client.Ask(requests));
    EXPECT_EQ(client.Next().header.id, count);
  }
}

TEST(EngineTest, Message_Malformed_EndsItsConnectionAlone) {
  Setting s({.program = &kAnyOrder});
  TestClient good = s.NewClient();
  {
    TestClient bad = s.NewClient();
    ASSERT_TRUE(bad.Send(std::string(64, '\xff')));
    EXPECT_EQ(bad.Next().header.status, static_cast<uint32_t>(Error::kMalformed));
    EXPECT_TRUE(bad.Next().ended);
  }
  EXPECT_EQ(good.Do(s.ReadOf(1, 0, 10)).header.by_agent, 1u);
}

// Connections that end in the middle: their reads end by themselves, and their room is free again.
TEST(EngineTest, Connections_EndUnderTheirReads_GiveTheirRoomBack) {
  Setting s({.program = &kAnyOrder, .contexts = 8, .buffers = 8});
  for (int i = 0; i < 200; ++i) {
    TestClient client = s.NewClient();
    std::vector<Request> burst;
    for (uint64_t id = 1; id <= 4; ++id) burst.push_back(s.ReadOf(id, id * 4096, 4096));
    ASSERT_TRUE(client.Ask(burst));
    if (i % 2 == 0) {
      const linger now{1, 0};
      setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
  }
  TestClient client = s.NewClient();
  ASSERT_TRUE(Eventually([&] { return client.Do(s.ReadOf(9, 0, 10)).header.by_agent == 1; }));
  EXPECT_TRUE(Eventually([&] { return s.director->stats().connections == 1; }));
}

}  // namespace
}  // namespace pulse::offload::test
