// fallback=embedded: only for an agent that is not there or of another protocol version. Against a
// socket that answers what it is told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "channel/handshake.h"
#include "services/lsm/core/host_session.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using ::testing::HasSubstr;

// A directory with a short name: a socket's path must be short, and the scratch directory's may not
// be.
class ShortDir {
 public:
  ShortDir() : path_((std::filesystem::temp_directory_path() / "pulse_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~ShortDir() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  std::string socket() const { return path_ + "/s"; }

 private:
  std::string path_;
};

// Listens, and answers one hello.
class AnsweringAgent {
 public:
  explicit AnsweringAgent(std::function<void(wire::Message*)> change) {
    auto listener = ListenUnix(socket());
    if (!listener.ok()) std::abort();
    listener_ = *std::move(listener);
    thread_ = std::thread([this, change = std::move(change)] {
      UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer.valid() || !ReceiveMessage(peer.get()).ok()) return;
      wire::Message ack = MakeMessage(wire::MessageType::kHelloAck);
      ack.args[0] = 64;
      ack.args[3] = static_cast<uint64_t>(EngineKind::kThreads);
      change(&ack);
      auto kick = Doorbell::CreatePair();
      if (kick.ok()) SendMessage(peer.get(), ack, {kick->ring.get()}).IgnoreError();
    });
  }
  ~AnsweringAgent() {
    shutdown(listener_.get(), SHUT_RDWR);  // in case nobody came
    thread_.join();
  }
  std::string socket() const { return dir_.socket(); }

 private:
  ShortDir dir_;
  UniqueFd listener_;
  std::thread thread_;
};

absl::Status Connect(const std::string& socket, const std::string& options) {
  return HostSession::Open(MakeOptions("pulse://" + socket + "?" + options)).status();
}

TEST(FallbackTest, Fallback_NoAgentListens_IsTaken) {
  const ShortDir dir;
  const std::string socket = dir.socket();
  EXPECT_FALSE(Connect(socket, "fallback=none").ok());
  EXPECT_TRUE(Connect(socket, "fallback=embedded").ok());
  ListenUnix(socket)->reset();  // it was there, and left its file
  ASSERT_TRUE(std::filesystem::exists(socket));
  EXPECT_FALSE(Connect(socket, "fallback=none").ok());
  EXPECT_TRUE(Connect(socket, "fallback=embedded").ok());
}

TEST(FallbackTest, Fallback_AgentOfAnotherProtocolVersion_IsTaken) {
  for (int status : {0, EPROTO}) {  // as told by the host, or by the agent
    for (bool fallback : {false, true}) {
      AnsweringAgent agent([status](wire::Message* m) {
        ++m->version;
        m->status = status;
      });
      const absl::Status st =
          Connect(agent.socket(), fallback ? "fallback=embedded" : "fallback=none");
      EXPECT_EQ(st.ok(), fallback) << st;
    }
  }
}

TEST(FallbackTest, Fallback_AgentRefuses_IsNotTaken) {
  AnsweringAgent agent([](wire::Message* m) {
    m->status = EPROTO;
    SetText(m, "the agent has its 8 sessions already");
  });
  const absl::Status st = Connect(agent.socket(), "fallback=embedded");
  EXPECT_THAT(std::string(st.message()), HasSubstr("8 sessions"));
}

TEST(FallbackTest, Fallback_AgentHasAnotherEngine_IsNotTaken) {
  AnsweringAgent agent([](wire::Message*) {});
  const absl::Status st = Connect(agent.socket(), "fallback=embedded&engine=io_uring");
  EXPECT_THAT(std::string(st.message()), HasSubstr("engine=io_uring"));
}

TEST(FallbackTest, Fallback_AgentAnswersNonsense_IsTaken) {
  AnsweringAgent agent([](wire::Message* m) { m->type = 77; });
  EXPECT_TRUE(Connect(agent.socket(), "fallback=embedded").ok());
  AnsweringAgent silent([](wire::Message* m) { m->magic = 0; });
  EXPECT_TRUE(Connect(silent.socket(), "fallback=embedded").ok());
}

// The statuses that include/pulse/rocksdb.h promises.
TEST(FallbackTest, FailedOpen_EachCause_HasThePromisedStatus) {
  const auto open = [](const std::string& socket) {
    std::shared_ptr<rocksdb::FileSystem> fs;
    return NewFileSystem("pulse://" + socket, nullptr, &fs);
  };
  const ShortDir dir;
  EXPECT_TRUE(open(dir.socket()).IsPathNotFound()) << open(dir.socket()).ToString();
  ListenUnix(dir.socket())->reset();
  EXPECT_TRUE(open(dir.socket()).IsIOError()) << open(dir.socket()).ToString();
  EXPECT_TRUE(open("?sync=maybe").IsInvalidArgument());
  {
    AnsweringAgent agent([](wire::Message* m) { ++m->version; });
    EXPECT_TRUE(open(agent.socket()).IsInvalidArgument());
  }
  {
    AnsweringAgent agent([](wire::Message* m) { m->status = EPROTO; });
    EXPECT_TRUE(open(agent.socket()).IsInvalidArgument());
  }
}

}  // namespace
}  // namespace pulse::lsm::test
