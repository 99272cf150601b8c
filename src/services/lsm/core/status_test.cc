// What a host publishes of itself, as its agent shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/status_server.h"
#include "base/own_threads.h"
#include "channel/status_message.h"
#include "nlohmann/json.hpp"
#include "services/lsm/core/test_agent.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::lsm::test {
namespace {

using nlohmann::json;
using ::testing::UnorderedElementsAre;

json SessionAt(const std::string& path) {
  const auto text = AskStatus(path, 10'000);
  if (!text.ok()) return json();
  const json j = json::parse(*text);
  return j["sessions"].size() == 1 ? j["sessions"][0] : json();
}

// The session's numbers once `condition` holds for them.
template <typename Condition>
json Await(const std::string& path, Condition condition) {
  json found;
  const bool seen = testing_util::Eventually([&] {
    const json session = SessionAt(path);
    if (session.is_null() || session["host"].is_null() || !condition(session)) return false;
    found = session;
    return true;
  });
  EXPECT_TRUE(seen) << SessionAt(path).dump();
  return found;
}

void FillAndCheck(rocksdb::FileSystem* fs, const std::string& path, const ScratchDir& dir) {
  const std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::shared_ptr<rocksdb::FileSystem>(fs, [](auto*) {}));
  TestDb one(SmallDbOptions(env.get()), dir / "one");
  TestDb two(SmallDbOptions(env.get()), dir / "two");
  ASSERT_TRUE(one.Open().ok());
  ASSERT_TRUE(two.Open().ok());
  std::mt19937_64 rng(TestSeed());
  ASSERT_TRUE(one.Fill(&rng, 2000, 1000).ok());
  ASSERT_TRUE(one.FlushAll().ok());
  ASSERT_TRUE(one.CompactAll().ok());
  // What the host says is what it has counted, and what the agent says is what it has done: once
  // both have come to rest.
  const json s = Await(path, [&](const json& session) {
    Stats stats{};
    EXPECT_TRUE(GetStats(fs, &stats));
    uint64_t buckets = 0;
    for (const uint64_t n : session["syncs"]["below_power_of_two_micros"]) buckets += n;
    const json& host = session["host"];
    return host["syncs"] == stats.syncs && host["files_persisted"] == stats.files_persisted &&
           host["bytes_persisted"] == stats.bytes_persisted &&
           host["bytes_fetched"] == stats.bytes_fetched &&
           host["barrier_waits"] == stats.barrier_waits && host["sync_nanos"] == stats.sync_nanos &&
           host["outputs_open"] == 0 && host["databases"] == 2 &&
           session["databases"].size() == 2 && session["bytes_written"] == stats.bytes_persisted &&
           session["syncs"]["count"] == stats.syncs && buckets == stats.syncs &&
           session["requests"]["sync_close"] == stats.syncs && session["persist"]["in_flight"] == 0;
  });
  EXPECT_GT(s["host"]["bytes_persisted"].get<uint64_t>(), 0u);
  EXPECT_GT(s["host"]["output_open_nanos"].get<uint64_t>(), 0u);
  EXPECT_GT(s["host"]["queue_memory"].get<uint64_t>(), 0u);
  std::vector<std::string> names = s["databases"];
  for (std::string& name : names) name = name.substr(name.rfind('/') + 1);
  EXPECT_THAT(names, UnorderedElementsAre("one", "two"));
  EXPECT_GT(s["persist"]["busy_nanos"].get<uint64_t>(), 0u);

  // An output that is being written.
  auto output = CreateOutput(fs, dir / "two/000777.sst");
  Await(path, [](const json& session) { return session["host"]["outputs_open"] == 1; });
  ASSERT_TRUE(output->Close(rocksdb::IOOptions(), nullptr).ok());
  Await(path, [](const json& session) { return session["host"]["outputs_open"] == 0; });
  two.Close();
  Await(path, [](const json& session) { return session["databases"].size() == 1; });
  one.Close();
  Await(path, [](const json& session) { return session["databases"].empty(); });
}

TEST(HostStatusTest, Status_EmbeddedAgent_TellsAtItsPath) {
  const ScratchDir dir;
  const std::string path = "/tmp/pulse-host-status-" + std::to_string(getpid()) + ".sock";
  {
    auto fs = PulseFileSystem::Open(MakeOptions("pulse://?status=/tmp/pulse-host-status-%p.sock"),
                                    rocksdb::FileSystem::Default());
    ASSERT_TRUE(fs.ok()) << fs.status();
    FillAndCheck(fs->get(), path, dir);
    // A second file system of the process tells at the same place.
    auto second = PulseFileSystem::Open(MakeOptions("pulse://?status=" + path),
                                        rocksdb::FileSystem::Default());
    ASSERT_TRUE(second.ok()) << second.status();
    const auto text = AskStatus(path, 10'000);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(json::parse(*text)["sessions"].size(), 2u);
    EXPECT_EQ(json::parse(*text)["workers"], 2);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the socket goes with the last of them";
}

TEST(HostStatusTest, Status_OptionNotGiven_NoThreadAnswers) {
  // Threads of this process that answer.
  const auto answering = [] {
    size_t n = 0;
    for (const pid_t thread : OwnThreads()) n += NameOfThread(thread) == "pulse-ag-status";
    return n;
  };
  // One of a test before may be on its way out.
  ASSERT_TRUE(testing_util::Eventually([&] { return answering() == 0; }));
  auto fs = PulseFileSystem::Open(MakeOptions("pulse://"), rocksdb::FileSystem::Default());
  ASSERT_TRUE(fs.ok());
  EXPECT_EQ(answering(), 0u);
  auto other = PulseFileSystem::Open(MakeOptions("pulse://?status=/tmp/pulse-none-%p.sock"),
                                     rocksdb::FileSystem::Default());
  ASSERT_TRUE(other.ok()) << other.status();
  // It gives itself its name.
  EXPECT_TRUE(testing_util::Eventually([&] { return answering() == 1; }));
}

TEST(HostStatusTest, Open_BadStatusPath_FailsNamingIt) {
  auto fs = PulseFileSystem::Open(MakeOptions("pulse://?status=/no/such/directory/s.sock"),
                                  rocksdb::FileSystem::Default());
  ASSERT_FALSE(fs.ok());
  EXPECT_NE(fs.status().message().find("status=/no/such/directory"), absl::string_view::npos)
      << fs.status();
}

TEST(HostStatusTest, Status_AgentProcess_TellsOfItsHosts) {
  if (testing_util::kThreadSanitizer) GTEST_SKIP() << "forks";
  const ScratchDir dir;
  AgentProcess agent;
  agent.Start();
  auto fs = agent.Attach();
  FillAndCheck(fs.get(), agent.socket(), dir);
  // A new agent is told of what there was with the one before.
  agent.Kill();
  agent.Start();
  const json s =
      Await(agent.socket(), [](const json& session) { return session["host"]["reconnects"] == 1; });
  EXPECT_EQ(s["host"]["failovers"], 1);
  EXPECT_GT(s["host"]["agentless_nanos"].get<uint64_t>(), 0u);
  EXPECT_GT(s["host"]["bytes_persisted"].get<uint64_t>(), 0u);
  EXPECT_EQ(s["bytes_written"], 0);
}

}  // namespace
}  // namespace pulse::lsm::test
