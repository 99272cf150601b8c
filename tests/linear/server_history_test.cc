// Histories of the whole server: real processes on loopback, clients that write and read at random,
// servers and agents that are killed meanwhile. What clients were answered has to be linearizable,
// and reads have to have been answered by the agent. PULSE_TEST_MINUTES goes on for so long.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "checker.h"
#include "history_test.h"
#include "redis_load.h"
#include "services/redis/offload/resp.h"
#include "services/redis/serve.h"
#ifdef PULSE_PROGRAM
#include "bench/macro/program_process.h"
#endif

namespace pulse::linear {
namespace {

using testing_util::Eventually;

// While the load goes on: of a thousand answers, one in twenty is to be a read of the agent's. As
// long as its view is behind there are fewer.
void ExpectOffloads(const RedisLoad& load, const std::function<uint64_t()>& offloaded) {
  EXPECT_TRUE(Eventually([&] {
    const uint64_t answers = load.answered(), before = offloaded();
    return Answers(load, 1000) && offloaded() - before > (load.answered() - answers) / 20;
  })) << offloaded();
}

// Once nothing is written any more, the agent answers reads of all keys, whatever was lost before.
void ExpectAllClean(const RedisLoad& load, uint16_t port, const std::string& password) {
  Control control(port, password);
  control.Ask({"GET", "nothing"});  // the host has answered one
  const auto keys = load.keys();
  EXPECT_TRUE(Eventually([&] {
    const auto before = control.Info("offload_reads");
    for (const std::string& key : keys) EXPECT_NE(control.Ask({"GET", key})[0], '-');
    return control.Info("offload_reads") == *before + keys.size();
  })) << control.Ask({"INFO", "offload"});
}

// Of the agent within this process.
enum class Agent {
  kUsual,
  kForgets,  // what is dirty
};

Verdict RunEmbedded(Agent agent, uint64_t answers) {
  Directory directory;
  redis::ServeOptions options;
  options.db = directory / "db";
  options.offload = true;
  auto server = redis::Server::Open(
      options,
      [&](const redis::OffloadSetup& setup) -> absl::StatusOr<std::shared_ptr<net::Application>> {
        if (agent == Agent::kUsual) return redis::EmbeddedOffload()(setup);
        redis::OffloadOptions offload;
        offload.host = "unix:" + setup.host_socket;
        offload.secondary.db = setup.db;
        offload.secondary.directory = setup.secondary_dir;
        offload.broken = true;
        auto opened = redis::OffloadedResp::Open(offload);
        if (!opened.ok()) return opened.status();
        return std::shared_ptr<net::Application>(*std::move(opened));
      });
  EXPECT_TRUE(server.ok()) << server.status();
  if (!server.ok()) return {};
  LoadOptions load_options;
  load_options.seed = Seeds()();
  load_options.port = (*server)->port();
  load_options.prefix = "k";
  RedisLoad load(load_options);
  EXPECT_TRUE(Answers(load, answers));
  ExpectOffloads(
      load, [port = (*server)->port()] { return Control(port).Info("offload_reads").value_or(0); });
  load.Stop();
  if (agent == Agent::kUsual) {
    ExpectAllClean(load, (*server)->port(), "");
    ExpectLinearizable(load);
  }
  EXPECT_TRUE((*server)->Stop().ok());
  return Check(load.history());
}

TEST(ServerHistoryTest, EmbeddedAgent_RandomLoad_Linearizable) {
  EXPECT_TRUE(RunEmbedded(Agent::kUsual, testing_util::kThreadSanitizer ? 3000 : 10'000).ok());
}

// The test above can fail, and so can those below.
TEST(ServerHistoryTest, DirtyTableThatForgets_RandomLoad_ViolationFound) {
  bool found = false;
  for (int round = 0; round < 20 && !found; ++round) {
    found = RunEmbedded(Agent::kForgets, 3000).outcome == Verdict::Outcome::kViolation;
  }
  EXPECT_TRUE(found);
}

#ifdef PULSE_PROGRAM

// A server, and an agent in front of it or within it, as processes.
class World {
 public:
  World(bool separate, const std::string& password) : separate_(separate), password_(password) {
    if (!password.empty()) {
      FILE* const file = fopen((directory_ / "password").c_str(), "w");
      fprintf(file, "%s\n", password.c_str());
      fclose(file);
    }
    StartHost();
    if (separate) StartAgent();
  }

  void StartHost() {
    std::vector<std::string> words = {"serve", "--db", directory_ / "db"};
    if (separate_) {
      words.insert(words.end(), {"--host-socket", directory_ / "host.sock"});
    } else {
      words.insert(words.end(), {"--port", "0", "--offload", "on"});
    }
    if (!password_.empty()) {
      words.insert(words.end(), {"--requirepass", directory_ / "password"});
    }
    const std::string log = directory_ / absl::StrCat("host.", ++starts_, ".log").c_str();
    ASSERT_TRUE(host_.Start(words, {}, log, PULSE_PROGRAM).ok());
    if (separate_) {
      const auto status = host_.WaitFor("pulse serve: ");
      ASSERT_TRUE(status.ok()) << status;
    } else {
      SetPort(host_.WaitForPort("127.0.0.1:"));
    }
  }
  void StartAgent() {
    const std::string log = directory_ / absl::StrCat("agent.", ++starts_, ".log").c_str();
    std::vector<std::string> words = {"agent",
                                      "--socket",
                                      directory_ / "agent.sock",
                                      "--serve",
                                      "0",
                                      "--serve-host",
                                      directory_ / "host.sock",
                                      "--serve-db",
                                      directory_ / "db"};
    if (password_.empty()) words.push_back("--serve-no-password");
    const auto status = agent_.Start(words, {}, log, PULSE_PROGRAM);
    ASSERT_TRUE(status.ok()) << status;
    SetPort(agent_.WaitForPort("(port "));
  }
  void KillHost() { host_.Kill(); }
  void KillAgent() { agent_.Kill(); }

  uint16_t port() const { return port_; }
  const std::string& password() const { return password_; }
  LoadOptions Load(int protocol = 2) {
    LoadOptions options;
    options.seed = Seeds()();
    options.port = port_;
    options.prefix = absl::StrCat("k", Seeds()() % 1000, "-");
    options.protocol = protocol;
    options.password = password_;
    return options;
  }
  uint64_t Offloaded() { return Control(port_, password_).Info("offload_reads").value_or(0); }

 private:
  void SetPort(const absl::StatusOr<uint16_t>& port) {
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }

  Directory directory_;
  const bool separate_;
  const std::string password_;
  uint16_t port_ = 0;
  int starts_ = 0;
  // The agent ends first.
  bench::ProgramProcess host_;
  bench::ProgramProcess agent_;
};

constexpr uint64_t kAnswers = 20'000;

void End(World* world, RedisLoad* load) {
  ExpectOffloads(*load, [=] { return world->Offloaded(); });
  load->Stop();
  printf("  %llu reads answered by the agent\n",
         static_cast<unsigned long long>(world->Offloaded()));
  ExpectAllClean(*load, world->port(), world->password());
  ExpectLinearizable(*load);
}

// The whole server is killed with all it has in memory.
TEST(ServerHistoryTest, EmbeddedAgentProcess_RandomLoad_Linearizable) {
  ForMinutes([] {
    World world(false, "");
    RedisLoad load(world.Load());
    EXPECT_TRUE(Answers(load, kAnswers));
    EXPECT_EQ(load.lost(), 0u);
    ExpectOffloads(load, [&] { return world.Offloaded(); });
    world.KillHost();
    world.StartHost();
    load.PointTo(world.port());
    EXPECT_TRUE(Answers(load, kAnswers));
    End(&world, &load);
    EXPECT_GT(load.lost(), 0u);
  });
}

TEST(ServerHistoryTest, Resp3Clients_RandomLoad_Linearizable) {
  ForMinutes([] {
    World world(false, "");
    RedisLoad load(world.Load(3));
    EXPECT_TRUE(Answers(load, kAnswers));
    End(&world, &load);
    EXPECT_EQ(load.lost() + load.unknown() + load.refused(), 0u);
  });
}

TEST(ServerHistoryTest, SeparateAgent_Killed_Linearizable) {
  ForMinutes([] {
    World world(true, "");
    RedisLoad load(world.Load());
    EXPECT_TRUE(Answers(load, kAnswers));
    EXPECT_EQ(load.lost() + load.unknown() + load.refused(), 0u);
    for (int i = 0; i < 3; ++i) {
      ExpectOffloads(load, [&] { return world.Offloaded(); });
      world.KillAgent();
      world.StartAgent();
      load.PointTo(world.port());
      EXPECT_TRUE(Answers(load, kAnswers));
    }
    End(&world, &load);
    EXPECT_GT(load.unknown(), 0u);
  });
}

// Reads of keys that nobody writes, one at a time, until it ends.
class QuietReader {
 public:
  explicit QuietReader(World* world) : control_(world->port(), world->password()) {
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(control_.Ask({"SET", Key(i), Key(i)}), "+OK\r\n");
    }
    EXPECT_NE(control_.Ask({"GET", Key(0)}), "");
    thread_ = std::thread([this] {
      for (int i = 0; !stop_.load(); i = (i + 1) % 16) {
        const std::string reply = control_.Ask({"GET", Key(i)});
        (reply == Right(i)                        ? right_
         : reply.substr(0, 13) == "-ERR the host" ? refused_
                                                  : wrong_)
            .fetch_add(1);
        if (reply.empty()) return;
        // sleep: it looks on, and leaves the processor to the others
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  }
  ~QuietReader() {
    stop_.store(true);
    thread_.join();
  }
  // What somebody else is answered; of some key, as one may share its word with what was lost.
  static bool AnyIsRight(Control control) {
    for (int i = 0; i < 16; ++i) {
      if (control.Ask({"GET", Key(i)}) == Right(i)) return true;
    }
    return false;
  }
  uint64_t right() const { return right_.load(); }
  uint64_t refused() const { return refused_.load(); }
  uint64_t wrong() const { return wrong_.load(); }

 private:
  static std::string Key(int i) { return absl::StrCat("quiet", i); }
  static std::string Right(int i) {
    const std::string value = Key(i);
    return absl::StrCat("$", value.size(), "\r\n", value, "\r\n");
  }
  Control control_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> right_{0}, refused_{0}, wrong_{0};
  std::thread thread_;
};

// Clients keep their connections, are told of what was lost, and it works again by itself.
void KillTheHost(World* world, int protocol) {
  RedisLoad load(world->Load(protocol));
  QuietReader reader(world);
  EXPECT_TRUE(Answers(load, kAnswers));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(load.lost(), 0u);
    world->KillHost();
    // The host is away: what it has to do is refused, and clean keys are read.
    const uint64_t refused = load.refused();
    const uint64_t right = reader.right();
    EXPECT_TRUE(
        Eventually([&] { return load.refused() > refused + 100 && reader.right() > right + 200; }));
    // Who comes now is answered if no password is needed.
    EXPECT_EQ(QuietReader::AnyIsRight(Control(world->port())), world->password().empty());
    world->StartHost();
    EXPECT_TRUE(Answers(load, kAnswers));
  }
  End(world, &load);
  EXPECT_EQ(load.lost(), 0u);
  EXPECT_GT(load.unknown(), 0u);
  EXPECT_EQ(reader.wrong(), 0u);
  printf("  %llu reads of quiet keys, and %llu refused\n",
         static_cast<unsigned long long>(reader.right()),
         static_cast<unsigned long long>(reader.refused()));
}

TEST(ServerHistoryTest, Host_Killed_Linearizable) {
  ForMinutes([] {
    World world(true, "");
    KillTheHost(&world, 2);
  });
}

// The agent says to the new host who its clients are.
TEST(ServerHistoryTest, HostWithPassword_Killed_Linearizable) {
  ForMinutes([] {
    World world(true, "a word that nobody guesses");
    EXPECT_EQ(Control(world.port()).Ask({"GET", "x"}).substr(0, 7), "-NOAUTH");
    KillTheHost(&world, 3);
    EXPECT_EQ(Control(world.port()).Ask({"GET", "x"}).substr(0, 7), "-NOAUTH");
  });
}

#endif

}  // namespace
}  // namespace pulse::linear
