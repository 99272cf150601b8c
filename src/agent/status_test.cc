// What an agent says of itself: counters, the copy of them, and how it is asked.
#include "agent/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "agent/socket_server.h"
#include "agent/status_server.h"
#include "agent/test_host.h"
#include "base/testing.h"
#include "channel/status_message.h"

namespace pulse {
namespace {

using agent_test::Hooks;
using agent_test::TestHost;
using ::testing::HasSubstr;

std::string SocketPath(const char* name) {
  return "/tmp/pulse-" + std::string(name) + "-" + std::to_string(getpid()) + ".sock";
}

nlohmann::json Ask(const std::string& path) {
  const auto text = AskStatus(path, 10'000);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json();
}

TEST(BusyTimeTest, Nanos_OverlapsAndIdleTime_CountsBusyTimeOnce) {
  using std::chrono::milliseconds;
  BusyTime busy(testing_util::TestClock::Now);
  EXPECT_EQ(busy.Nanos(), 0u);
  busy.Begin();
  busy.Begin();
  EXPECT_EQ(busy.in_flight(), 2u);
  testing_util::TestClock::Advance(milliseconds(2));
  EXPECT_EQ(busy.Nanos(), 2'000'000u) << "also while it goes on; two at a time count once";
  busy.End();
  EXPECT_EQ(busy.in_flight(), 1u);
  testing_util::TestClock::Advance(milliseconds(3));
  busy.End();
  EXPECT_EQ(busy.Nanos(), 5'000'000u);
  testing_util::TestClock::Advance(milliseconds(1));
  EXPECT_EQ(busy.Nanos(), 5'000'000u) << "idle";
  busy.Begin();
  testing_util::TestClock::Advance(milliseconds(7));
  busy.End();
  EXPECT_EQ(busy.Nanos(), 12'000'000u) << "busy again";
}

TEST(FrontStatusTest, ToJson_FrontSetAndRemoved_ShowsItMeanwhile) {
  const auto front = std::make_shared<FrontRegistry>();
  const AgentStatus status("agent", "/some.sock", front);
  const auto told = [&] { return nlohmann::json::parse(ToJson(status.Take()))["front"]; };
  EXPECT_TRUE(told().is_null());
  FrontStatus now;
  now.service = "redis";
  now.connections = 2;
  now.answered = 7;
  now.component_nanos[static_cast<size_t>(CpuComponent::kParse)] = 5;
  now.to_host = {{"dirty", 3}, {"full", 0}};
  front->Set([&now] { return now; });
  EXPECT_EQ(told()["service"], "redis");
  EXPECT_EQ(told()["connections"], 2);
  EXPECT_EQ(told()["answered"], 7);
  EXPECT_EQ(told()["cpu_components"]["parse"], 5);
  EXPECT_EQ(told()["cpu_components"].size(), kCpuComponentNames.size());
  EXPECT_EQ(told()["to_host"], nlohmann::json({{"dirty", 3}, {"full", 0}}));
  now.to_host = {{"dirty", 2}, {"full", 1}};
  EXPECT_EQ(told()["to_host"], nlohmann::json({{"dirty", 3}, {"full", 1}})) << "none goes back";
  front->Set(nullptr);
  EXPECT_TRUE(told().is_null());
  EXPECT_TRUE(nlohmann::json::parse(ToJson(AgentStatus("agent", "").Take()))["front"].is_null());
}

TEST(NumberGroupsTest, ToJson_NumberGroup_IsShownByItsNames) {
  static constexpr NumberSpec kMost = {"most"};
  static constexpr NumberSpec kDone = {"done"};
  const AgentStatus status("agent", "/some.sock", nullptr, [] {
    return std::vector<NumberGroup>{{"tasks", {{&kMost, 2}, {&kDone, 5}}}};
  });
  const auto told = nlohmann::json::parse(ToJson(status.Take()))["tasks"];
  EXPECT_EQ(told, nlohmann::json({{"most", 2}, {"done", 5}}));
  EXPECT_TRUE(nlohmann::json::parse(ToJson(AgentStatus("agent", "").Take()))["tasks"].is_null());
}

TEST(BusyTimeTest, Take_WhileWorkGoesOn_NeverGoesBack) {
  SessionCounters counters;
  alignas(wire::kCacheLine) static char memory[wire::kPage];
  auto* control = new (memory) wire::ControlPage();
  AgentStatus status("embedded", "");
  status.Enter({1, &agent_test::kTestSpec, "shared", &counters, control});
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop) {
      counters.fetch.Begin();
      counters.fetch.End();
    }
  });
  const int64_t begin = NowNanos();
  EXPECT_TRUE(testing_util::Eventually([&] { return counters.fetch.Nanos() > 0; }));
  uint64_t last = 0;
  bool back = false;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t now = status.Take().sessions[0].fetch_busy_nanos;
    back |= now < last;
    last = now;
  }
  stop = true;
  worker.join();
  EXPECT_FALSE(back);
  EXPECT_GT(last, 0u);
  EXPECT_LE(counters.fetch.Nanos(), static_cast<uint64_t>(NowNanos() - begin));
}

TEST(LatencyCountsTest, Record_AnyLatency_CountsInItsPowerOfTwoBucket) {
  LatencyCounts counts;
  counts.Record(0);
  counts.Record(999);
  counts.Record(1000);
  counts.Record(1'999);
  counts.Record(2'000);
  counts.Record(-5);
  counts.Record(int64_t{1} << 62);
  EXPECT_EQ(counts.bucket(0), 3u);
  EXPECT_EQ(counts.bucket(1), 2u);
  EXPECT_EQ(counts.bucket(2), 1u);
  EXPECT_EQ(counts.bucket(LatencyCounts::kBuckets - 1), 1u);
  EXPECT_EQ(counts.nanos(), 999u + 1000 + 1999 + 2000 + (uint64_t{1} << 62));
}

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() { agent_test::g_hooks = &hooks_; }
  void Serve() {
    AgentOptions options;
    options.socket_path = path_;
    options.handshake_ms = 60'000;
    options.engine = EngineKind::kThreads;
    auto server = SocketServer::Open(options, agent_test::TestServices());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  Hooks hooks_;
  const std::string path_ = SocketPath("status");
  std::unique_ptr<SocketServer> server_;
};

TEST_F(StatusTest, AskStatus_AgentWithSession_TellsOfBoth) {
  Serve();
  auto j = Ask(path_);
  EXPECT_EQ(j["format"], "pulse-status");
  EXPECT_EQ(j["version"], 1);
  EXPECT_EQ(j["kind"], "agent");
  EXPECT_EQ(j["socket"], path_);
  EXPECT_EQ(j["pid"], getpid());
  EXPECT_EQ(j["engine"], "threads");
  EXPECT_EQ(j["workers"], 1);
  EXPECT_GT(j["cpu_nanos"].get<uint64_t>(), 0u);
  EXPECT_TRUE(j["sessions"].empty());
  EXPECT_EQ(server_->session_count(), 0u) << "who asks is no session";
  {
    TestHost host(/*shared=*/true);
    ASSERT_TRUE(host.Connect(path_).ok());
    auto& q = host.NewQueue();
    ASSERT_TRUE(host.Attach(q).ok());
    j = Ask(path_);
    ASSERT_EQ(j["sessions"].size(), 1u);
    auto s = j["sessions"][0];
    EXPECT_EQ(s["pid"], getpid());
    EXPECT_EQ(s["service"], "test");
    EXPECT_EQ(s["mover"], "shared");
    EXPECT_EQ(s["queues"], 1);
    EXPECT_EQ(s["memory_bytes"], TestHost::kArena);
    EXPECT_TRUE(s["host"].is_null()) << "a host that says nothing";
    EXPECT_TRUE(s["databases"].empty());

    HostNumbersCopy numbers;
    numbers[HostNumbersCopy::kTime] = static_cast<uint64_t>(NowNanos());
    numbers[1] = 123'456;
    numbers[2] = 77;
    numbers.names = {"/data/\"one\"", "/data/two\x1b[2J"};
    WriteHostNumbers(host.control(), numbers);
    s = Ask(path_)["sessions"][0];
    EXPECT_EQ(s["host"]["first"], 123'456);
    EXPECT_EQ(s["host"]["second"], 77);
    EXPECT_EQ(s["databases"][0], "/data/\"one\"");
    EXPECT_EQ(s["databases"][1], "/data/two?[2J");
    // A host that hangs in the middle of a writing: what it said before stands.
    auto* area =
        reinterpret_cast<wire::HostNumbers*>(host.page().data() + wire::kHostNumbersOffset);
    area->sequence.fetch_add(1);
    s = Ask(path_)["sessions"][0];
    EXPECT_EQ(s["host"]["first"], 123'456);
  }
  EXPECT_TRUE(testing_util::Eventually([&] { return Ask(path_)["sessions"].empty(); }));
  EXPECT_EQ(Ask(path_)["sessions_total"], 1);
}

TEST_F(StatusTest, AskStatus_HostilePage_IsJson) {
  Serve();
  TestHost host(/*shared=*/true);
  ASSERT_TRUE(host.Connect(path_).ok());
  std::mt19937_64 rng(testing_util::TestSeed());
  for (int round = 0; round < 50; ++round) {
    for (size_t at = wire::kHostNumbersOffset; at + 8 <= wire::kPage; at += 8) {
      const uint64_t word = rng();
      std::memcpy(host.page().data() + at, &word, sizeof(word));
    }
    host.page().data()[wire::kHostNumbersOffset] &= ~1;
    const auto text = AskStatus(path_, 10'000);
    ASSERT_TRUE(text.ok()) << text.status();
    ASSERT_FALSE(nlohmann::json::parse(*text, nullptr, false).is_discarded()) << *text;
  }
}

TEST_F(StatusTest, AskStatus_ManyTimes_LeavesNoDescriptors) {
  Serve();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Ask(path_)["version"], 1);
  const size_t before = testing_util::OpenDescriptors();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Ask(path_)["version"], 1);
  EXPECT_TRUE(testing_util::Eventually([&] { return testing_util::OpenDescriptors() <= before; }));
}

TEST_F(StatusTest, AskStatus_OtherVersion_IsRefusedByName) {
  Serve();
  auto socket = ConnectUnix(path_);
  ASSERT_TRUE(socket.ok());
  wire::Message m = MakeMessage(wire::MessageType::kStatus);
  m.version = 99;
  ASSERT_TRUE(SendMessage(socket->get(), m).ok());
  const auto answer = ReceiveMessage(socket->get());
  ASSERT_TRUE(answer.ok());
  EXPECT_NE(answer->message.status, 0);
  EXPECT_THAT(TextOf(answer->message), HasSubstr("version 99"));
  EXPECT_TRUE(answer->fds.empty());
}

TEST_F(StatusTest, AskStatus_NobodyThere_SaysHowToStartOne) {
  const auto text = AskStatus(path_ + ".none", 1000);
  EXPECT_TRUE(absl::IsNotFound(text.status())) << text.status();
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("pulse agent --socket"));
}

TEST(StatusServerTest, StatusServer_EmbeddedAgent_AnswersUntilItsLastUserGoes) {
  const std::string pattern = "/tmp/pulse-embedded-%p.sock";
  const std::string path = SocketPath("embedded");
  Hooks hooks;
  agent_test::g_hooks = &hooks;
  {
    auto server = StatusServer::Open(pattern);
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ(*StatusServer::Open(path), *server) << "shared by path";
    struct stat st;
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
    WorkerOptions options;
    options.backend.kind = EngineKind::kThreads;
    options.status = std::shared_ptr<AgentStatus>(*server, &(*server)->status());
    {
      auto worker = Worker::Start(options);
      ASSERT_TRUE(worker.ok()) << worker.status();
      const auto j = Ask(path);
      EXPECT_EQ(j["kind"], "embedded");
      EXPECT_EQ(j["workers"], 1);
      EXPECT_EQ(j["engine"], "threads");
    }
    const auto j = Ask(path);
    EXPECT_EQ(j["workers"], 0);
    EXPECT_GT(j["cpu_nanos"].get<uint64_t>(), 0u) << "what ended workers used still counts";
    // A host that takes this for an agent is told.
    TestHost host(/*shared=*/true);
    const absl::Status refused = host.Connect(path);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("only tells its status"));
    // One who connects and says nothing keeps nobody waiting for long.
    auto silent = ConnectUnix(path);
    ASSERT_TRUE(silent.ok());
    EXPECT_EQ(Ask(path)["version"], 1);
  }
  struct stat st;
  EXPECT_NE(stat(path.c_str(), &st), 0) << "the socket goes with the last who needed it";
}

TEST(StatusServerTest, Destructor_SuccessorHasThePath_LeavesItsSocket) {
  const std::string path = SocketPath("successor");
  auto server = StatusServer::Open(path);
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_EQ(unlink(path.c_str()), 0);
  auto successor = ListenUnix(path);
  ASSERT_TRUE(successor.ok()) << successor.status();
  server->reset();
  EXPECT_TRUE(ConnectUnix(path).ok());
  unlink(path.c_str());
}

TEST(StatusServerTest, Open_PathInUse_NamesTheRemedy) {
  const std::string path = SocketPath("used");
  auto other = ListenUnix(path);
  ASSERT_TRUE(other.ok()) << other.status();
  const absl::Status st = StatusServer::Open(path).status();
  unlink(path.c_str());
  EXPECT_TRUE(absl::IsAlreadyExists(st)) << st;
  EXPECT_THAT(std::string(st.message()), HasSubstr("%p"));
}

TEST(StatusServerTest, Open_ImpossiblePath_NamesIt) {
  const auto server = StatusServer::Open("/no/such/directory/s.sock");
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("status=/no/such/directory"));
}

}  // namespace
}  // namespace pulse
