// The plug-in's exports against an agent in this process.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/nbd/plugin_options.h"
#include "apps/nbd/store_export.h"
#include "services/files/test_agent.h"

namespace pulse::nbd {
namespace {

using files::TestAgent;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class NbdExportTest : public testing::Test {
 protected:
  void SetUp() override { agent_.Start(); }

  // So small that most requests find the group full at first.
  static files::PollOptions Small() {
    files::PollOptions poll;
    poll.request_bytes = 64 << 10;
    poll.response_bytes = 64 << 10;
    poll.max_requests = 8;
    return poll;
  }
  std::unique_ptr<StoreExport> Open(Agent* client, const std::string& name = "f") {
    auto e = StoreExport::Open(client, "d", name);
    EXPECT_TRUE(e.ok()) << e.status();
    return e.ok() ? *std::move(e) : nullptr;
  }
  static std::string Read(StoreExport* e, uint64_t offset, uint64_t length) {
    std::string data(length, '?');
    const absl::Status st = e->Read(offset, data.data(), length);
    EXPECT_EQ(st, absl::OkStatus());
    return data;
  }

  TestAgent agent_;
};

TEST_F(NbdExportTest, PrepareFile_ExistingFile_IsKeptAndOtherSizeRefused) {
  Agent client(agent_.socket());
  EXPECT_THAT(std::string(PrepareFile(&client, "d", "f", 0).message()), HasSubstr("create=true"));
  ASSERT_EQ(PrepareFile(&client, "d", "f", 3 * kMiB + 17), absl::OkStatus());
  auto e = Open(&client);
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(e->size(), 3 * kMiB + 17);
  EXPECT_EQ(Read(e.get(), 3 * kMiB, 17), std::string(17, '\0'));
  ASSERT_EQ(e->Write(3 * kMiB + 10, "letters", 7), absl::OkStatus());
  ASSERT_EQ(e->Flush(), absl::OkStatus());
  // Again: there it is. Of another size: refused, and left alone.
  EXPECT_EQ(PrepareFile(&client, "d", "f", 3 * kMiB + 17), absl::OkStatus());
  EXPECT_EQ(PrepareFile(&client, "d", "f", 0), absl::OkStatus());
  const absl::Status other = PrepareFile(&client, "d", "f", kMiB);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()), HasSubstr("3145745 bytes and not 1048576"));
  EXPECT_EQ(Read(e.get(), 3 * kMiB + 10, 7), "letters");
}

TEST_F(NbdExportTest, PrepareFile_FullStore_IsRefusedAndKeepsNothing) {
  Agent client(agent_.socket());
  const absl::Status st = PrepareFile(&client, "d", "big", 1024 * kMiB);
  EXPECT_EQ(ErrnoForClient(st), ENOSPC) << st;
  EXPECT_THAT(std::string(st.message()), HasSubstr("full"));
  EXPECT_EQ(ListFiles(&client, "d", 10).status().code(), absl::StatusCode::kNotFound);
  // Nothing of it is held back.
  EXPECT_EQ(PrepareFile(&client, "d", "small", 16 * kMiB), absl::OkStatus());
}

TEST_F(NbdExportTest, ListFiles_SeveralFiles_AreInOrderUpToTheLimit) {
  Agent client(agent_.socket());
  for (const char* name : {"b", "a", "c"}) {
    ASSERT_EQ(PrepareFile(&client, "d", name, kMiB), absl::OkStatus());
  }
  EXPECT_THAT(ListFiles(&client, "d", 10).value(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(ListFiles(&client, "d", 2).value(), ElementsAre("a", "b"));
  EXPECT_EQ(StoreExport::Open(&client, "d", "x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StoreExport::Open(&client, "d", "x/y").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(NbdExportTest, Read_FileMadeShorter_SaysSo) {
  Agent client(agent_.socket());
  ASSERT_EQ(PrepareFile(&client, "d", "f", kMiB), absl::OkStatus());
  auto e = Open(&client);
  auto library = agent_.Connect();
  files::Client other(library.get());
  ASSERT_EQ(other.SetSize(other.Open("d", "f").file, 5000), absl::OkStatus());
  std::string data(4096, '?');
  EXPECT_EQ(Read(e.get(), 0, 5000), std::string(5000, '\0'));
  const absl::Status st = e->Read(4096, data.data(), data.size());
  EXPECT_THAT(std::string(st.message()), HasSubstr("somebody has made it shorter"));
  EXPECT_EQ(ErrnoForClient(st), EIO);
}

// Many threads, of several connections, on few lanes, each on its own part of a file; requests of
// all lengths, many of them longer than a part or than the whole group.
void RunThreads(TestAgent* agent, const files::PollOptions& poll, uint64_t seed) {
  constexpr uint64_t kThreads = 12;
  constexpr uint64_t kRegion = 2 * kMiB - 333;  // regions meet inside blocks
  Agent client(agent->socket(), poll);
  ASSERT_EQ(PrepareFile(&client, "d", "f", kThreads * kRegion), absl::OkStatus());
  std::vector<std::unique_ptr<StoreExport>> exports;
  for (int i = 0; i < 6; ++i) {
    auto e = StoreExport::Open(&client, "d", "f");
    ASSERT_TRUE(e.ok()) << e.status();
    exports.push_back(*std::move(e));
  }
  std::atomic<int> wrong{0};
  const auto work = [&](uint64_t number) {
    std::mt19937_64 random(seed + number);
    std::string model(kRegion, '\0');
    const uint64_t base = number * kRegion;
    for (int i = 0; i < 60 && wrong == 0; ++i) {
      StoreExport& e = *exports[random() % exports.size()];
      const uint64_t at = random() % kRegion;
      const uint64_t length =
          std::min(kRegion - at, random() % (random() % 8 == 0 ? kRegion : 20000) + 1);
      switch (random() % 4) {
        case 0: {
          std::memset(&model[at], static_cast<int>('a' + random() % 26), length);
          if (!e.Write(base + at, &model[at], length).ok()) ++wrong;
          break;
        }
        case 1:
          std::memset(&model[at], 0, length);
          if (!e.Zero(base + at, length).ok()) ++wrong;
          break;
        case 2:
          if (random() % 8 == 0 && !e.Flush().ok()) ++wrong;
          break;
        default: {
          std::string data(length, '?');
          if (!e.Read(base + at, data.data(), length).ok()) ++wrong;
          if (data != model.substr(at, length)) ++wrong;
        }
      }
    }
    std::string data(kRegion, '?');
    if (!exports[0]->Read(base, data.data(), kRegion).ok() || data != model) ++wrong;
  };
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(NbdExportTest, Requests_ManyThreadsOnFewLanes_ReadWhatTheyWrote) {
  RunThreads(&agent_, Agent::DefaultPoll(), testing_util::TestSeed());
}

TEST_F(NbdExportTest, Requests_ManyThreadsOnFullLanes_ReadWhatTheyWrote) {
  RunThreads(&agent_, Small(), testing_util::TestSeed() + 100);
}

TEST_F(NbdExportTest, Exports_AgentWithFewGroups_AllWrite) {
  agent_.Stop();
  agent_.agent_options.limits.max_queues = 2;
  agent_.Start();
  Agent client(agent_.socket());
  ASSERT_EQ(PrepareFile(&client, "d", "f", kMiB), absl::OkStatus());
  for (int i = 0; i < 7; ++i) {
    auto e = Open(&client);
    ASSERT_NE(e, nullptr);
    EXPECT_EQ(e->Write(0, "x", 1), absl::OkStatus());
  }
}

TEST_F(NbdExportTest, AgentEnds_UnflushedWrites_RequestsFailUntilRestart) {
  auto client = std::make_unique<Agent>(agent_.socket(), Small());
  ASSERT_EQ(PrepareFile(client.get(), "d", "f", 4 * kMiB), absl::OkStatus());
  auto e = Open(client.get());
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> written{0};
  std::atomic<int> odd{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      std::string data(300'000, 'x');
      while (true) {
        const absl::Status st = i % 2 == 0 ? e->Write(i * 1000, data.data(), data.size())
                                           : e->Read(i * 1000, data.data(), data.size());
        ++done;
        if (st.ok()) {
          if (i % 2 == 0) ++written;
          continue;
        }
        if (ErrnoForClient(st) != EIO || st.message().find("pulse agent") == st.message().npos) {
          ++odd;
        }
        return;
      }
    });
  }
  EXPECT_TRUE(testing_util::Eventually([&] { return done > 50 && written > 0; }));
  agent_.Stop();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(odd, 0);
  EXPECT_EQ(ErrnoForClient(e->Flush()), EIO);
  // It stays so when the agent is back: what was written may be lost.
  agent_.Start();
  EXPECT_EQ(ErrnoForClient(e->Flush()), EIO);
  const auto again = StoreExport::Open(client.get(), "d", "f");
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("start nbdkit again"));
  e.reset();
  EXPECT_FALSE(StoreExport::Open(client.get(), "d", "f").ok());
  client = std::make_unique<Agent>(agent_.socket());
  EXPECT_NE(Open(client.get()), nullptr);
}

TEST_F(NbdExportTest, AgentEnds_NothingUnflushed_NewAgentIsTaken) {
  Agent client(agent_.socket());
  ASSERT_EQ(PrepareFile(&client, "d", "f", kMiB), absl::OkStatus());
  auto e = Open(&client);
  auto second = Open(&client);
  ASSERT_EQ(e->Write(0, "kept", 4), absl::OkStatus());
  ASSERT_EQ(second->Flush(), absl::OkStatus());  // covers what the other wrote
  agent_.Stop();
  EXPECT_FALSE(StoreExport::Open(&client, "d", "f").ok());
  agent_.Start();
  EXPECT_EQ(ErrnoForClient(e->Write(0, "lost", 4)), EIO);
  auto fresh = Open(&client);
  ASSERT_NE(fresh, nullptr);
  EXPECT_EQ(Read(fresh.get(), 0, 4), "kept");
  EXPECT_EQ(ErrnoForClient(e->Flush()), EIO);  // the old connection does not come back
  e.reset();
  ASSERT_EQ(fresh->Write(0, "more", 4), absl::OkStatus());
  EXPECT_EQ(Read(fresh.get(), 0, 4), "more");
}

TEST(UnflushedTest, Flush_WriteStillUnderWay_DoesNotCoverIt) {
  Unflushed u;
  EXPECT_FALSE(u.any());
  u.BeginWrite();
  EXPECT_TRUE(u.any());
  const uint64_t before = u.written();
  u.EndWrite(true);
  u.Flushed(before);  // had begun before the write was done
  EXPECT_TRUE(u.any());
  u.Flushed(u.written());
  EXPECT_FALSE(u.any());
  u.BeginWrite();
  u.EndWrite(false);
  EXPECT_FALSE(u.any());
}

// --- parameters

absl::Status Set(PluginOptions* options,
                 const std::vector<std::pair<std::string, std::string>>& all) {
  for (const auto& [key, value] : all) {
    if (absl::Status st = SetOption(key, value, options); !st.ok()) return st;
  }
  return CheckOptions(*options);
}

TEST(PluginOptionsTest, Options_Valid_AreTaken) {
  PluginOptions o;
  ASSERT_EQ(Set(&o, {{"socket", "relative.sock"},
                     {"dir", "d"},
                     {"file", "f"},
                     {"size", "1.5G"},
                     {"create", "true"},
                     {"timeout", "5"},
                     {kBareWord, "readonly"}}),
            absl::OkStatus());
  EXPECT_EQ(o.socket.front(), '/');
  EXPECT_THAT(o.socket, HasSubstr("/relative.sock"));
  EXPECT_EQ(o.size, 1536 * kMiB);
  EXPECT_TRUE(o.create);
  EXPECT_EQ(o.timeout, 5u);
  EXPECT_TRUE(o.readonly);
}

TEST(PluginOptionsTest, Options_WrongOrMissing_AreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> good = {{"socket", "/s"}, {"dir", "d"}};
  const auto refused = [&](std::vector<std::pair<std::string, std::string>> more) {
    PluginOptions o;
    more.insert(more.begin(), good.begin(), good.end());
    return std::string(Set(&o, more).message());
  };
  PluginOptions none;
  EXPECT_THAT(std::string(Set(&none, {}).message()), HasSubstr("socket=PATH"));
  EXPECT_THAT(std::string(Set(&none, {{"socket", "/s"}}).message()), HasSubstr("dir=NAME"));
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({{"timeout", "0"}}), "");
  for (const char* wrong : {"", "soon", "-1", "1.5", "86401"}) {
    EXPECT_THAT(refused({{"timeout", wrong}}), HasSubstr("0 (for ever) to 86400"));
  }
  EXPECT_THAT(refused({{"dir", "e"}}), HasSubstr("dir= is given twice"));
  EXPECT_THAT(refused({{"file", ""}}), HasSubstr("file= is empty"));
  EXPECT_THAT(refused({{"size", "0"}}), HasSubstr("size=0"));
  EXPECT_THAT(refused({{"size", "lots"}}), HasSubstr("size=lots"));
  EXPECT_THAT(refused({{"create", "maybe"}}), HasSubstr("create=true or create=false"));
  EXPECT_THAT(refused({{"create", "true"}, {"size", "1G"}}), HasSubstr("file=NAME"));
  EXPECT_THAT(refused({{"create", "true"}, {"file", "f"}}), HasSubstr("size=SIZE"));
  EXPECT_THAT(refused({{"size", "1G"}, {"file", "f"}}), HasSubstr("create=true"));
  EXPECT_THAT(refused({{"sise", "1G"}}), HasSubstr("no parameter sise"));
  EXPECT_THAT(refused({{kBareWord, "writable"}}), HasSubstr("no parameter writable"));
}

}  // namespace
}  // namespace pulse::nbd
