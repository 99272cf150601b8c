#include "channel/handshake.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/wake_event.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;
using testing_util::OpenDescriptors;
using testing_util::ScratchPath;

using testing_util::Text;

struct SocketPair {
  SocketPair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    a.reset(fds[0]);
    b.reset(fds[1]);
  }
  UniqueFd a, b;
};

// Sends any bytes with any number of descriptors, as a broken peer might.
void SendRaw(int socket, const void* data, size_t n, const std::vector<int>& fds = {}) {
  iovec iov{const_cast<void*>(data), n};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * (fds.size() + 1)));
  msghdr msg{};
  msg.msg_iov = &iov;
  msg.msg_iovlen = 1;
  if (!fds.empty()) {
    msg.msg_control = control.data();
    msg.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  ASSERT_EQ(sendmsg(socket, &msg, MSG_NOSIGNAL), static_cast<ssize_t>(n));
}

TEST(MessageTest, Text_TooLongOrUnterminated_IsCutToFit) {
  wire::Message m = MakeMessage(wire::MessageType::kHelloAck);
  EXPECT_EQ(TextOf(m), "");
  SetText(&m, absl::string_view());
  EXPECT_EQ(TextOf(m), "");
  SetText(&m, "a reason");
  EXPECT_EQ(TextOf(m), "a reason");
  SetText(&m, std::string(1000, 'x'));
  EXPECT_EQ(TextOf(m), std::string(sizeof(m.text) - 1, 'x'));
  std::memset(m.text, 'y', sizeof(m.text));  // a peer that forgot the zero
  EXPECT_EQ(TextOf(m), std::string(sizeof(m.text), 'y'));
}

TEST(MessageTest, Send_WithDescriptors_ArrivesWithSameFilesInOrder) {
  SocketPair s;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  UniqueFd reader(pipe_fds[0]), writer(pipe_fds[1]);
  wire::Message m = MakeMessage(wire::MessageType::kAttachQueue);
  m.status = -5;
  for (size_t i = 0; i < std::size(m.args); ++i) m.args[i] = i * 1000;
  SetText(&m, "hello");
  ASSERT_TRUE(SendMessage(s.a.get(), m, {writer.get(), reader.get(), writer.get()}).ok());
  auto r = ReceiveMessage(s.b.get());
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(std::memcmp(&r->message, &m, sizeof(m)), 0);
  EXPECT_EQ(r->message.magic, wire::kMessageMagic);
  EXPECT_EQ(r->message.version, wire::kProtocolVersion);
  ASSERT_EQ(r->fds.size(), 3u);
  for (const UniqueFd& fd : r->fds) EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  // They are the same files, in order.
  ASSERT_EQ(write(r->fds[0].get(), "w", 1), 1);
  char c = 0;
  ASSERT_EQ(read(r->fds[1].get(), &c, 1), 1);
  EXPECT_EQ(c, 'w');
}

TEST(MessageTest, Receive_SeveralMessages_KeepsOrderAndDescriptors) {
  SocketPair s;
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (uint64_t i = 0; i < 3; ++i) {
    wire::Message m = MakeMessage(wire::MessageType::kFile);
    m.args[0] = i;
    ASSERT_TRUE(SendMessage(s.a.get(), m, std::vector<int>(i, null.get())).ok());
  }
  for (uint64_t i = 0; i < 3; ++i) {
    auto r = ReceiveMessage(s.b.get());
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(r->message.args[0], i);
    EXPECT_EQ(r->fds.size(), i);
  }
}

TEST(MessageTest, Receive_OtherVersion_IsLeftToTheCaller) {
  SocketPair s;
  wire::Message m = MakeMessage(wire::MessageType::kHello);
  m.version = 77;
  ASSERT_TRUE(SendMessage(s.a.get(), m).ok());
  auto r = ReceiveMessage(s.b.get());
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->message.version, 77u);
}

TEST(MessageTest, Receive_WrongSizeOrMagic_IsRefusedAndClosesFds) {
  SocketPair s;
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const size_t before = OpenDescriptors();
  wire::Message m = MakeMessage(wire::MessageType::kHello);
  char large[sizeof(m) + 1] = {};
  std::memcpy(large, &m, sizeof(m));
  wire::Message wrong = m;
  wrong.magic ^= 0x100;
  SendRaw(s.a.get(), &m, 1, {null.get()});
  SendRaw(s.a.get(), &m, sizeof(m) - 1, {null.get()});
  SendRaw(s.a.get(), large, sizeof(large), {null.get()});
  SendRaw(s.a.get(), &wrong, sizeof(wrong), {null.get()});
  for (int i = 0; i < 4; ++i) {
    auto r = ReceiveMessage(s.b.get());
    EXPECT_TRUE(absl::IsInvalidArgument(r.status())) << i << ": " << r.status();
    EXPECT_THAT(Text(r.status()), HasSubstr("does not speak PulseDB's protocol"));
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(MessageTest, Receive_TooManyDescriptors_IsRefusedAndClosesAll) {
  SocketPair s;
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const size_t before = OpenDescriptors();
  const wire::Message m = MakeMessage(wire::MessageType::kHello);
  for (size_t n : {kMaxMessageFds + 1, kMaxMessageFds + 2, size_t{16}}) {
    SendRaw(s.a.get(), &m, sizeof(m), std::vector<int>(n, null.get()));
    auto r = ReceiveMessage(s.b.get());
    EXPECT_TRUE(absl::IsInvalidArgument(r.status())) << n << ": " << r.status();
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

// What this process has no room for is lost on the way; the message is not at fault.
TEST(MessageTest, Receive_NoRoomForDescriptors_ArrivesAndSaysTheyAreLost) {
  SocketPair s;
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  wire::Message m = MakeMessage(wire::MessageType::kFile);
  m.args[0] = 42;
  ASSERT_TRUE(SendMessage(s.a.get(), m, {null.get()}).ok());
  ASSERT_TRUE(SendMessage(s.a.get(), m, {null.get()}).ok());
  {
    const testing_util::NoMoreFiles none;
    auto r = ReceiveMessage(s.b.get());
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_TRUE(r->fds_lost);
    EXPECT_TRUE(r->fds.empty());
    EXPECT_EQ(r->message.args[0], 42u);
  }
  auto r = ReceiveMessage(s.b.get());
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_FALSE(r->fds_lost);
  EXPECT_EQ(r->fds.size(), 1u);
}

TEST(MessageTest, PeerPidfd_PeerExits_BecomesReadable) {
  ScratchPath path("sock");
  auto listener = ListenUnix(path.get());
  ASSERT_TRUE(listener.ok());
  const pid_t child = fork();
  if (child == 0) {
    UniqueFd fd = ConnectUnix(path.get()).value();
    char c;
    _exit(read(fd.get(), &c, 1) == 1 ? 0 : 1);
  }
  UniqueFd peer(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  const UniqueFd process = GetPeerPidfd(peer.get());
  if (!process.valid()) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << "no pidfd in this kernel";
  }
  pollfd p{process.get(), POLLIN, 0};
  EXPECT_EQ(poll(&p, 1, 0), 0) << "it lives";
  EXPECT_EQ(write(peer.get(), "x", 1), 1);
  EXPECT_EQ(poll(&p, 1, 60'000), 1);
  waitpid(child, nullptr, 0);
}

TEST(ListenTest, Listen_UmaskZero_SocketIsPrivateAndUmaskKept) {
  ScratchPath path("sock");
  const mode_t old = umask(0);
  auto listener = ListenUnix(path.get());
  umask(old);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat st;
  ASSERT_EQ(lstat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_EQ(umask(old), old) << "the process's own mask is as it was";
}

TEST(MessageTest, Send_TooManyDescriptors_IsRefused) {
  SocketPair s;
  EXPECT_FALSE(
      SendMessage(s.a.get(), MakeMessage(wire::MessageType::kHello), std::vector<int>(4, 0)).ok());
}

TEST(MessageTest, SendAndReceive_PeerClosed_AreUnavailableWithoutSignal) {
  SocketPair s;
  s.a.reset();
  auto r = ReceiveMessage(s.b.get());
  EXPECT_TRUE(absl::IsUnavailable(r.status())) << r.status();
  EXPECT_FALSE(IsNoMessage(r.status()));
  EXPECT_THAT(Text(r.status()), HasSubstr("closed"));
  const absl::Status st = SendMessage(s.b.get(), MakeMessage(wire::MessageType::kHello));
  EXPECT_TRUE(absl::IsUnavailable(st)) << st;
}

TEST(MessageTest, Receive_PeerClosedAfterSending_GetsWhatWasSent) {
  SocketPair s;
  ASSERT_TRUE(SendMessage(s.a.get(), MakeMessage(wire::MessageType::kFile)).ok());
  s.a.reset();
  EXPECT_TRUE(ReceiveMessage(s.b.get()).ok());
  EXPECT_TRUE(absl::IsUnavailable(ReceiveMessage(s.b.get()).status()));
}

TEST(MessageTest, SendFirst_PeerHasRefusedAndGone_LeavesItsWordsToReceive) {
  for (const bool late : {false, true}) {  // late: it ends with the message unread
    SocketPair s;
    if (late) {
      ASSERT_TRUE(SendFirst(s.b.get(), MakeMessage(wire::MessageType::kHello)).ok());
    }
    SendRefusal(s.a.get(), wire::MessageType::kHelloAck, absl::PermissionDeniedError("not you"))
        .IgnoreError();
    s.a.reset();
    if (!late) {
      EXPECT_TRUE(SendFirst(s.b.get(), MakeMessage(wire::MessageType::kHello)).ok());
    }
    const auto r = ReceiveMessage(s.b.get());
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(TextOf(r->message), "not you");
    EXPECT_FALSE(SendFirst(s.b.get(), MakeMessage(wire::MessageType::kHello)).ok());
  }
}

TEST(MessageTest, Receive_NotWaiting_SaysNoMessage) {
  SocketPair s;
  const absl::Status st = ReceiveMessage(s.b.get(), /*wait=*/false).status();
  EXPECT_TRUE(IsNoMessage(st)) << st;
  EXPECT_FALSE(IsNoMessage(absl::OkStatus()));
}

TEST(MessageTest, Receive_TimeoutSet_EndsWithDeadlineExceeded) {
  SocketPair s;
  ASSERT_TRUE(SetSocketTimeout(s.b.get(), 20).ok());
  const absl::Status st = ReceiveMessage(s.b.get()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(st)) << st;
  EXPECT_FALSE(SetSocketTimeout(-1, 20).ok());
}

TEST(MessageTest, PeerCredentials_SocketOrOtherFile_AreGivenOrRefused) {
  SocketPair s;
  auto c = GetPeerCredentials(s.a.get());
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->pid, getpid());
  EXPECT_EQ(c->uid, geteuid());
  EXPECT_EQ(c->gid, getegid());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(GetPeerCredentials(null.get()).ok());
}

// A bound socket file of some type, nobody accepting; `listening` or left behind.
UniqueFd BindAt(const std::string& path, int type, bool listening) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un addr{};
  addr.sun_family = AF_UNIX;
  std::memcpy(addr.sun_path, path.data(), path.size());
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&addr), sizeof(addr)), 0) << path;
  if (listening) {
    EXPECT_EQ(listen(fd.get(), 4), 0);
  }
  return fd;
}

TEST(ListenTest, Listen_UsualUmask_SocketIsPrivateAndUmaskKept) {
  ScratchPath path("sock");
  const mode_t old = umask(0022);
  auto fd = ListenUnix(path.get());
  EXPECT_EQ(umask(old), mode_t{0022});
  ASSERT_TRUE(fd.ok()) << fd.status();
  struct stat st;
  ASSERT_EQ(lstat(path.c_str(), &st), 0);
  EXPECT_TRUE(S_ISSOCK(st.st_mode));
  EXPECT_EQ(st.st_mode & 0777, mode_t{0600});
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ListenTest, Connect_ToListener_MessagesPass) {
  ScratchPath path("sock");
  auto listener = ListenUnix(path.get());
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto client = ConnectUnix(path.get());
  ASSERT_TRUE(client.ok()) << client.status();
  UniqueFd server(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(server.valid());
  ASSERT_TRUE(SendMessage(client->get(), MakeMessage(wire::MessageType::kHello)).ok());
  EXPECT_TRUE(ReceiveMessage(server.get()).ok());
}

TEST(ListenTest, Listen_SocketFileLeftBehind_ReplacesIt) {
  ScratchPath path("sock");
  BindAt(path.get(), SOCK_SEQPACKET, /*listening=*/true).reset();  // killed: the file stays
  auto fd = ListenUnix(path.get());
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(ConnectUnix(path.get()).ok());
}

TEST(ListenTest, Listen_SocketAlive_IsRefusedAndKeepsTheFirst) {
  ScratchPath path("sock");
  auto first = ListenUnix(path.get());
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status st = ListenUnix(path.get()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr(path.get()));
  EXPECT_THAT(Text(st), HasSubstr("--socket"));
  EXPECT_TRUE(ConnectUnix(path.get()).ok()) << "the first one still listens";
}

TEST(ListenTest, Listen_SocketOfAnotherProgram_RefusesAndKeepsIt) {
  for (int type : {SOCK_STREAM, SOCK_DGRAM}) {
    ScratchPath path("sock");
    UniqueFd other = BindAt(path.get(), type, type == SOCK_STREAM);
    const absl::Status st = ListenUnix(path.get()).status();
    EXPECT_TRUE(absl::IsAlreadyExists(st)) << "type " << type << ": " << st;
    EXPECT_THAT(Text(st), HasSubstr(path.get()));
    struct stat info;
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << "type " << type << ": removed";
  }
}

TEST(ListenTest, Listen_NotASocket_RefusesAndKeepsIt) {
  ScratchPath path("sock");
  UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_EQ(write(file.get(), "data", 4), 4);
  const absl::Status st = ListenUnix(path.get()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr("not a socket"));
  struct stat info;
  ASSERT_EQ(lstat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 4);
  // A link to a socket is not a socket either: it may lead anywhere.
  ScratchPath target("target"), link("link");
  auto listener = ListenUnix(target.get());
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  EXPECT_TRUE(absl::IsAlreadyExists(ListenUnix(link.get()).status()));
}

TEST(ListenTest, ListenAndConnect_PathEmptyOrTooLong_AreRefused) {
  for (const std::string& path : {std::string(), std::string(108, 'x'), std::string(5000, 'x')}) {
    for (const absl::Status& st : {ListenUnix(path).status(), ConnectUnix(path).status()}) {
      EXPECT_TRUE(absl::IsInvalidArgument(st)) << st;
      EXPECT_THAT(Text(st), HasSubstr("use 1 to 107"));
    }
  }
  const std::string longest = "./" + std::string(105, 'x');
  EXPECT_TRUE(ListenUnix(longest).ok());
  unlink(longest.c_str());
}

TEST(ListenTest, Listen_MissingDirectory_SaysToCheckIt) {
  const absl::Status st = ListenUnix("./no-such-directory/agent.sock").status();
  EXPECT_TRUE(absl::IsNotFound(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr("./no-such-directory/agent.sock"));
  EXPECT_THAT(Text(st), HasSubstr("check that its directory exists"));
}

TEST(ConnectTest, Connect_SocketMissingOrDead_NamesTheRemedy) {
  ScratchPath missing("sock");
  ScratchPath dead("sock");
  BindAt(dead.get(), SOCK_SEQPACKET, true).reset();
  for (const std::string& path : {missing.get(), dead.get()}) {
    const absl::Status st = ConnectUnix(path).status();
    EXPECT_FALSE(st.ok());
    EXPECT_THAT(Text(st), HasSubstr(path));
    EXPECT_THAT(Text(st), HasSubstr("pulse agent --socket " + path));
    EXPECT_THAT(Text(st), HasSubstr("fallback=embedded"));
  }
}

TEST(ConnectTest, Connect_NoSocketOrAnothers_SaysSo) {
  ScratchPath file("file");
  UniqueFd made(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const absl::Status no_socket = ConnectUnix(file.get()).status();
  EXPECT_THAT(Text(no_socket), HasSubstr("it is no socket"));
  ScratchPath other("sock");
  UniqueFd stream = BindAt(other.get(), SOCK_STREAM, true);
  const absl::Status stranger = ConnectUnix(other.get()).status();
  EXPECT_THAT(Text(stranger), HasSubstr("of another program"));
  for (const absl::Status& st : {no_socket, stranger}) {
    EXPECT_THAT(Text(st), ::testing::Not(HasSubstr("start it with")));
  }
}

TEST(ConnectTest, ConnectAndListen_SocketOfAnotherUser_SayWhoseItIs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string path = "/tmp/pulse-handshake-" + std::to_string(getpid());
  auto listener = ListenUnix(path);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(9);
    const std::string connect = Text(ConnectUnix(path).status());
    const std::string listen = Text(ListenUnix(path).status());
    const auto has = [](const std::string& text, const char* part) {
      return text.find(part) != std::string::npos;
    };
    _exit((has(connect, "run both as the same user") ? 1 : 0) +
          (has(connect, "fallback=embedded") ? 2 : 0) +
          (has(listen, "may not be examined") ? 4 : 0));
  }
  int status = 0;
  waitpid(child, &status, 0);
  unlink(path.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1 + 4);
}

// A listener that takes nobody in, as an agent that is stopped.
TEST(ConnectTest, Connect_BacklogFull_WaitsNoLongerThanWanted) {
  ScratchPath path("sock");
  auto listener = ListenUnix(path.get());
  ASSERT_TRUE(listener.ok());
  std::vector<UniqueFd> waiting;
  absl::Status st;
  while (st.ok() && waiting.size() < 1000) {
    auto fd = ConnectUnix(path.get(), /*timeout_ms=*/0);
    st = fd.status();
    if (fd.ok()) waiting.push_back(*std::move(fd));
  }
  ASSERT_TRUE(absl::IsDeadlineExceeded(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr("restart it"));
  auto event = WakeEvent::Create();
  ASSERT_TRUE(event.ok());
  event->Set();
  EXPECT_TRUE(absl::IsCancelled(ConnectUnix(path.get(), 3'600'000, event->fd()).status()));
  // Another agent must not take the place of one that is only stopped.
  EXPECT_TRUE(absl::IsAlreadyExists(ListenUnix(path.get()).status()));
  // A place that becomes free is taken.
  std::thread accept([&] { UniqueFd(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)); });
  EXPECT_TRUE(ConnectUnix(path.get()).ok());
  accept.join();
}

}  // namespace
}  // namespace pulse
