// Poll groups: full rings, sleeping and waking, many threads, and an agent that is lost.
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "channel/handshake.h"
#include "services/files/spec.h"
#include "services/files/test_agent.h"

namespace pulse::files {
namespace {

using testing_util::Eventually;

constexpr PollOptions kSmall{
    .request_bytes = 1 << 16, .response_bytes = 1 << 16, .max_requests = 64};

class WaitTest : public testing::TestWithParam<Transfer> {
 protected:
  void SetUp() override {
    agent_.Start();
    library_ = agent_.Connect(GetParam());
    ASSERT_NE(library_, nullptr);
    client_ = std::make_unique<Client>(library_.get(), kSmall);
    ASSERT_EQ(client_->CreateDirectory("d"), absl::OkStatus());
    file_ = client_->Create("d", "f").file;
    for (uint64_t at = 0; at < kBytes; at += 16384) {
      std::string data(16384, '\0');
      for (uint64_t i = 0; i < data.size(); i += 8) {
        const uint64_t word = at + i;
        std::memcpy(data.data() + i, &word, 8);
      }
      ASSERT_EQ(client_->Write(file_, at, data).status, absl::OkStatus());
    }
  }
  static constexpr uint64_t kBytes = 1 << 20;

  TestAgent agent_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Client> client_;
  File file_ = File::kNone;
};

TEST_P(WaitTest, Group_Full_SaysRetryAndLosesNothing) {
  const Poll p = client_->poll();
  std::vector<std::string> buffers(4096, std::string(4096, '?'));
  size_t issued = 0, done = 0, retries = 0;
  std::set<uint64_t> cookies;
  Completion c[8];
  while (done < buffers.size()) {
    while (issued < buffers.size()) {
      const uint64_t offset = issued % (kBytes / 4096) * 4096;
      const absl::Status st =
          library_->ReadFile(file_, offset, buffers[issued].data(), 4096, issued);
      if (!st.ok()) {
        ASSERT_TRUE(IsRetry(st)) << st;
        ++retries;
        break;
      }
      ++issued;
    }
    const size_t n = library_->PollWait(p, c, 8, kForever).value();
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(c[i].status, absl::OkStatus());
      ASSERT_EQ(c[i].bytes, 4096u);
      ASSERT_TRUE(cookies.insert(c[i].cookie).second);
    }
    done += n;
  }
  EXPECT_GT(retries, 0u);
  EXPECT_EQ(library_->outstanding(p), 0u);
  for (size_t i = 0; i < buffers.size(); ++i) {
    uint64_t word;
    std::memcpy(&word, buffers[i].data(), 8);
    ASSERT_EQ(word, i % (kBytes / 4096) * 4096);
  }
}

// The host takes nothing: the agent stops at what fits, and goes on when there is room.
TEST_P(WaitTest, ResponseBuffer_Full_HoldsTheAgentUpUntilReleased) {
  const Poll p = client_->poll();
  std::vector<Completion> held;
  uint64_t issued = 0;
  while (library_->ReadInPlace(file_, issued * 8192, 8192, issued).ok()) ++issued;
  ASSERT_GT(issued, 8u);  // more than 64 KiB of responses
  Completion c;
  // All that can be had without giving anything back.
  while (library_->PollWait(p, &c, 1, 100'000).value() == 1) held.push_back(c);
  EXPECT_LT(held.size(), issued);
  uint64_t seen = 0;
  while (seen < issued) {
    for (Completion& h : held) {
      ASSERT_EQ(h.bytes, 8192u);
      for (uint64_t i = 0; i < 8192; i += 8) {
        uint64_t word;
        std::memcpy(&word, h.data + i, 8);
        ASSERT_EQ(word, h.cookie * 8192 + i);
      }
      library_->Release(p, &h);
      ++seen;
    }
    held.clear();
    if (seen == issued) break;
    ASSERT_EQ(library_->PollWait(p, &c, 1, kForever).value(), 1u);
    held.push_back(c);
  }
}

TEST_P(WaitTest, PollAdd_FileOfAnotherGroup_MovesItsLaterCompletions) {
  const Poll other = library_->CreatePoll(kSmall).value();
  char a, b;
  ASSERT_EQ(library_->ReadFile(file_, 0, &a, 1, 1), absl::OkStatus());
  ASSERT_EQ(library_->PollAdd(other, file_), absl::OkStatus());
  ASSERT_EQ(library_->ReadFile(file_, 0, &b, 1, 2), absl::OkStatus());
  Completion c;
  ASSERT_EQ(library_->PollWait(other, &c, 1, kForever).value(), 1u);
  EXPECT_EQ(c.cookie, 2u);
  ASSERT_EQ(library_->PollWait(client_->poll(), &c, 1, kForever).value(), 1u);
  EXPECT_EQ(c.cookie, 1u);
  EXPECT_FALSE(library_->PollAdd(static_cast<Poll>(77), file_).ok());
  EXPECT_FALSE(library_->PollWait(static_cast<Poll>(77), &c, 1, 0).ok());
}

TEST_P(WaitTest, Ping_AgentIdle_IsAnswered) {
  for (int i = 0; i < 3; ++i) {
    const uint64_t last = library_->Ping();
    EXPECT_TRUE(Eventually([&] { return library_->Ping() != last; }));
  }
}

TEST_P(WaitTest, PollWait_TimedOutOrWoken_ReturnsNothing) {
  Completion c;
  EXPECT_EQ(library_->PollWait(client_->poll(), &c, 1, 0).value(), 0u);
  EXPECT_EQ(library_->PollWait(client_->poll(), &c, 1, 1000).value(), 0u);
  library_->PollWake(client_->poll());
  EXPECT_EQ(library_->PollWait(client_->poll(), &c, 1, kForever).value(), 0u);
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      Completion mine;
      EXPECT_EQ(library_->PollWait(client_->poll(), &mine, 1, kForever).value(), 0u);
      ++woken;
    });
  }
  for (int i = 0; i < 3; ++i) library_->PollWake(client_->poll());
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(woken, 3);
}

// Sleepers on one group take one completion each; none sleeps while there is one for it.
TEST_P(WaitTest, Sleepers_ManyOnOneGroup_TakeEachCompletionOnce) {
  constexpr int kThreads = 4;
  constexpr uint64_t kEach = 500;
  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> issued{0};
  std::vector<std::thread> threads;
  const Poll p = client_->poll();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // One byte each into a place of its own; completions are taken by whoever comes.
      static thread_local char buffer[kEach];
      for (uint64_t i = 0; i < kEach;) {
        const absl::Status st =
            library_->ReadFile(file_, i * 8, &buffer[i], 1, static_cast<uint64_t>(t));
        if (st.ok()) {
          ++issued;
          ++i;
        }
        Completion c;
        const int64_t timeout = st.ok() && i % 3 != 0 ? 0 : 1000;
        const size_t n = library_->PollWait(p, &c, 1, timeout).value();
        taken += n;
      }
      while (taken.load() < kThreads * kEach) {
        Completion c;
        const size_t n = library_->PollWait(p, &c, 1, kForever).value();
        taken += n;
      }
      // Whoever took the last one, wherever that was: the others may sleep.
      for (int k = 0; k < kThreads; ++k) library_->PollWake(p);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken, kThreads * kEach);
  EXPECT_EQ(library_->outstanding(p), 0u);
}

// Runs `wait` on a thread; whether it comes to its end without being woken.
template <typename Wait>
bool Returns(Library* library, Poll p, Wait wait) {
  std::atomic<bool> over{false};
  std::thread thread([&] {
    wait();
    over = true;
  });
  const bool returned = Eventually([&] { return over.load(); });
  while (!over) library->PollWake(p);  // turns a hang into a failure
  thread.join();
  return returned;
}

// Nothing is outstanding any more, since somebody else took the completion: the next attempt will
// find room, and nothing would ever wake whoever was told to RETRY.
TEST_P(WaitTest, PollWait_ToldToRetryNothingLeft_DoesNotSleep) {
  const Poll p = library_->CreatePoll({1 << 16, 1 << 16, 1}).value();
  ASSERT_EQ(library_->PollAdd(p, file_), absl::OkStatus());
  char byte, unused;
  Completion c;
  ASSERT_EQ(library_->ReadFile(file_, 0, &byte, 1, 1), absl::OkStatus());
  EXPECT_TRUE(Returns(library_.get(), p, [&] {
    EXPECT_TRUE(IsRetry(library_->ReadFile(file_, 0, &unused, 1, 2)));
    EXPECT_TRUE(Returns(library_.get(), p, [&] {
      Completion first;
      EXPECT_EQ(library_->PollWait(p, &first, 1, kForever).value(), 1u);
    }));
    // Another thread that waits takes nothing of that away.
    EXPECT_TRUE(Returns(library_.get(), p, [&] {
      Completion none;
      EXPECT_EQ(library_->PollWait(p, &none, 1, kForever).value(), 0u);
    }));
    Completion none;
    EXPECT_EQ(library_->PollWait(p, &none, 1, kForever).value(), 0u);
    // Once for each RETRY.
    EXPECT_EQ(library_->PollWait(p, &none, 1, 1000).value(), 0u);
  }));
}

// Each waits for ever whenever it is told to RETRY, and takes what the other asked for.
TEST_P(WaitTest, Threads_TwoOnOneRequest_BothFinish) {
  constexpr uint64_t kEach = 3000;
  const Poll p = library_->CreatePoll({1 << 16, 1 << 16, 1}).value();
  ASSERT_EQ(library_->PollAdd(p, file_), absl::OkStatus());
  std::atomic<uint64_t> taken{0};
  char bytes[2][kEach];
  const auto take = [&](int64_t timeout) {
    Completion c;
    taken += library_->PollWait(p, &c, 1, timeout).value();
  };
  EXPECT_TRUE(Returns(library_.get(), p, [&] {
    std::thread threads[2];
    for (size_t t = 0; t < 2; ++t) {
      threads[t] = std::thread([&, t] {
        for (uint64_t i = 0; i < kEach; ++i) {
          while (!library_->ReadFile(file_, i * 8, &bytes[t][i], 1, i).ok()) take(kForever);
          if (i % 3 == 0) take(0);
        }
        while (taken < 2 * kEach) take(1000);
      });
    }
    for (std::thread& t : threads) t.join();
  }));
  EXPECT_EQ(taken, 2 * kEach);
  EXPECT_EQ(library_->outstanding(p), 0u);
}

TEST_P(WaitTest, Threads_EachWithItsGroup_ReadTheirWrites) {
  constexpr int kThreads = 3;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Client mine(library_.get(), kSmall);
      const std::string name = "t" + std::to_string(t);
      const File f = mine.Create("d", name).file;
      for (int i = 0; i < 200; ++i) {
        const std::string data(1 + static_cast<size_t>(i) * 37 % 9000, static_cast<char>('a' + t));
        ASSERT_EQ(mine.Write(f, static_cast<uint64_t>(i) * 9000, data).bytes, data.size());
        ASSERT_EQ(mine.Read(f, static_cast<uint64_t>(i) * 9000, 9000).substr(0, data.size()), data);
        if (i % 50 == 0) {
          ASSERT_EQ(mine.Sync(f), absl::OkStatus());
        }
      }
      ASSERT_EQ(mine.Close(f), absl::OkStatus());
    });
  }
  for (std::thread& t : threads) t.join();
}

INSTANTIATE_TEST_SUITE_P(Transfers, WaitTest,
                         testing::Values(Transfer::kShared, Transfer::kVmRead));

// --- an agent that answers late

// It attaches a group after the library has given that up; its answer must not count for the next.
TEST(LateAgentTest, AttachAnswer_ToAnEarlierGroup_IsPassedOver) {
  const testing_util::ScratchPath path("late.sock");
  const UniqueFd listener = ListenUnix(path.get()).value();
  const Doorbell::Ends kick = Doorbell::CreatePair().value();
  uint64_t numbers[2] = {};
  std::thread agent([&] {
    pollfd p{listener.get(), POLLIN, 0};
    ASSERT_EQ(poll(&p, 1, 60'000), 1);
    const UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(ReceiveMessage(socket.get()).ok());
    ASSERT_TRUE(
        SendMessage(socket.get(), MakeMessage(wire::MessageType::kHelloAck), {kick.ring.get()})
            .ok());
    wire::Message ack = MakeMessage(wire::MessageType::kAttachAck);
    for (uint64_t& number : numbers) {
      const auto question = ReceiveMessage(socket.get());
      ASSERT_TRUE(question.ok());
      number = question->message.args[0];
      if (&number != numbers) {
        // That to the first, which was attached after all.
        ack.status = 0;
        ack.args[1] = 8192;  // no alignment that there is
        ASSERT_TRUE(SendMessage(socket.get(), ack).ok());
        ack.args[1] = 512;
      } else {
        ack.status = EAGAIN;  // stands for the time that was up
      }
      ack.args[0] = number;
      ASSERT_TRUE(SendMessage(socket.get(), ack).ok());
    }
  });
  auto library = Library::Open({path.get(), Transfer::kShared}).value();
  EXPECT_FALSE(library->CreatePoll(kSmall).ok());
  EXPECT_EQ(library->CreatePoll(kSmall).status(), absl::OkStatus());
  agent.join();
  EXPECT_NE(numbers[0], numbers[1]);
}

// --- an agent process that is lost

TEST(FilesAgentProcess, Serve_SocketInEnvironment_RunsUntilSigterm) {
  const char* socket = std::getenv("PULSE_TEST_AGENT_SOCKET");
  if (socket == nullptr) GTEST_SKIP() << "serves the other tests of this program";
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  auto files = FileStore::Open(std::getenv("PULSE_TEST_STORE"));
  ASSERT_TRUE(files.ok()) << files.status();
  AgentOptions options;
  options.socket_path = socket;
  options.handshake_ms = 60'000;
  auto server = SocketServer::Open(options, {{&kSpec, (*files)->Factory()}});
  ASSERT_TRUE(server.ok()) << server.status();
  int signal;
  sigwait(&set, &signal);
  server->reset();
}

class LostAgentTest : public testing::Test {
 protected:
  void SetUp() override {
    if (testing_util::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer: no fork beside threads";
    Spawn();
  }
  void TearDown() override { End(SIGKILL); }
  void Spawn() {
    unlink(agent_.socket().c_str());
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      setenv("PULSE_TEST_AGENT_SOCKET", agent_.socket().c_str(), 1);
      setenv("PULSE_TEST_STORE", agent_.store_path().c_str(), 1);
      execl("/proc/self/exe", "files_test",
            "--gtest_filter=FilesAgentProcess.Serve_SocketInEnvironment_RunsUntilSigterm",
            "--gtest_brief=1", nullptr);
      _exit(1);
    }
    ASSERT_TRUE(Eventually([&] {
      auto library = Library::Open({agent_.socket(), Transfer::kAgents});
      if (!library.ok()) return false;
      library_ = *std::move(library);
      return true;
    }));
  }
  void End(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  TestAgent agent_;  // its store and socket; never started here
  pid_t pid_ = -1;
  std::unique_ptr<Library> library_;
};

TEST_F(LostAgentTest, Operations_AgentKilled_AreEachReportedOnce) {
  Client client(library_.get(), kSmall);
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  const File f = client.Create("d", "f").file;
  ASSERT_EQ(client.Write(f, 0, std::string(4096, 'x')).status, absl::OkStatus());
  ASSERT_EQ(client.Sync(f), absl::OkStatus());
  kill(pid_, SIGSTOP);
  ASSERT_EQ(waitpid(pid_, nullptr, WUNTRACED), pid_);
  char buffers[64][8];
  std::set<uint64_t> waiting;
  for (uint64_t i = 0; i < 64; ++i) {
    if (library_->ReadFile(f, i, buffers[i], 8, i).ok()) waiting.insert(i);
  }
  ASSERT_GT(waiting.size(), 10u);
  // One sleeper, one who only looks.
  std::mutex mu;
  const auto take = [&](int64_t timeout) {
    while (true) {
      Completion c[3];
      const auto n = library_->PollWait(client.poll(), c, 3, timeout);
      if (!n.ok()) {
        EXPECT_TRUE(IsAgentLost(n.status())) << n.status();
        return;
      }
      std::lock_guard lock(mu);
      for (size_t i = 0; i < *n; ++i) {
        EXPECT_EQ(c[i].operation, Operation::kRead);
        EXPECT_EQ(waiting.erase(c[i].cookie), 1u);
        EXPECT_TRUE(c[i].status.ok() || IsAgentLost(c[i].status)) << c[i].status;
      }
    }
  };
  std::thread sleeper(take, kForever), looker(take, 0);
  kill(pid_, SIGKILL);
  sleeper.join();
  looker.join();
  EXPECT_TRUE(waiting.empty());
  EXPECT_TRUE(library_->lost());
  EXPECT_TRUE(IsAgentLost(library_->ReadFile(f, 0, buffers[0], 8, 0)));
  EXPECT_TRUE(IsAgentLost(library_->CreatePoll().status()));
  EXPECT_TRUE(IsAgentLost(library_->Close()));
  EXPECT_TRUE(IsAgentLost(library_->Close())) << "the same again";
  // A new agent has what was synced.
  End(SIGKILL);
  library_.reset();
  Spawn();
  Client again(library_.get());
  EXPECT_EQ(again.Read(again.Open("d", "f").file, 0, 5000), std::string(4096, 'x'));
}

TEST_F(LostAgentTest, SyncedData_AgentKilled_Survives) {
  Client client(library_.get());
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  const File f = client.Create("d", "f").file;
  ASSERT_EQ(client.Write(f, 0, std::string(70'000, 's')).status, absl::OkStatus());
  ASSERT_EQ(client.Sync(f), absl::OkStatus());
  ASSERT_EQ(client.Write(f, 70'000, std::string(70'000, 'u')).status, absl::OkStatus());
  ASSERT_EQ(client.Create("d", "g").status, absl::OkStatus());  // commits
  End(SIGKILL);
  library_.reset();
  Spawn();
  Client again(library_.get());
  EXPECT_EQ(again.List("d"), (std::vector<std::string>{"f", "g"}));
  const std::string found = again.Read(again.Open("d", "f").file, 0, 200'000);
  ASSERT_GE(found.size(), 70'000u);
  EXPECT_EQ(found.substr(0, 70'000), std::string(70'000, 's'));
  EXPECT_EQ(found.find_first_not_of('u', 70'000), std::string::npos);
}

// Its memory is kept, since the agent may go on where it stopped.
TEST_F(LostAgentTest, LibraryEnd_AgentStandsStill_ReturnsAndKeepsItsMemory) {
  const Client client(library_.get(), kSmall);
  kill(pid_, SIGSTOP);
  ASSERT_EQ(waitpid(pid_, nullptr, WUNTRACED), pid_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(library_->Close()));
  library_.reset();
  EXPECT_GT(testing_util::MappingsNamed("pulse-region"), 0u);
  kill(pid_, SIGCONT);
}

TEST_F(LostAgentTest, StoreOpen_HeldByAnotherAgent_NamesItsProcess) {
  const absl::Status st = FileStore::Open(agent_.store_path()).status();
  EXPECT_EQ(st.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(st.message()).find(std::to_string(pid_)), std::string::npos) << st;
}

}  // namespace
}  // namespace pulse::files
