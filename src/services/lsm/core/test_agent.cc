#include "services/lsm/core/test_agent.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "agent/socket_server.h"
#include "base/unique_fd.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/spec.h"
#include "services/lsm/placement/agent_tasks.h"
#include "services/lsm/placement/whole_task.h"

namespace pulse::lsm::test {
namespace {

// The child: this program again, running this one test.
TEST(AgentProcess, Serve_SocketInEnvironment_RunsUntilSigterm) {
  const char* socket = std::getenv("PULSE_TEST_AGENT_SOCKET");
  if (socket == nullptr) GTEST_SKIP() << "serves the other tests of this program";
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  AgentOptions options;
  options.socket_path = socket;
  options.handshake_ms = 60'000;
  TaskRunnerOptions tasks;
  tasks.max_tasks = 2;
  TaskRunner runner(tasks, RemoteTaskFunction());
  auto server = SocketServer::Open(
      options, {{&kSpec,
                 AgentServiceFactory([&runner](UniqueFd request, UniqueFd reply) {
                   return runner.Start(std::move(request), std::move(reply));
                 }),
                 {2, 1000}}});
  ASSERT_TRUE(server.ok()) << server.status();
  int signal;
  sigwait(&set, &signal);
}

// Whether somebody listens there.
bool Accepts(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

AgentProcess::AgentProcess() {
  // A socket's path is short by law, and the scratch directory's may not be.
  std::string dir = (std::filesystem::temp_directory_path() / "pulse_XXXXXX").string();
  if (mkdtemp(dir.data()) == nullptr) std::abort();
  dir_ = dir;
  Start();
}

AgentProcess::~AgentProcess() {
  Kill();
  std::error_code ec;
  std::filesystem::remove_all(dir_, ec);
}

void AgentProcess::Start() {
  const pid_t parent = getpid();
  const std::string path = socket();
  std::filesystem::remove(path);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // The one test, whichever part of the tests the parent runs.
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
    setenv("PULSE_TEST_AGENT_SOCKET", path.c_str(), 1);
    execl("/proc/self/exe", "lsm_test",
          "--gtest_filter=AgentProcess.Serve_SocketInEnvironment_RunsUntilSigterm",
          "--gtest_brief=1", nullptr);
    _exit(1);
  }
  // The file is there a moment before the socket accepts, and who is refused may wait long to try
  // again.
  EXPECT_TRUE(Eventually([&] { return Accepts(path); }));
}

void AgentProcess::LimitFiles(int n) const {
  rlimit limit;
  ASSERT_EQ(prlimit(pid_, RLIMIT_NOFILE, nullptr, &limit), 0);
  limit.rlim_cur = static_cast<rlim_t>(n);
  ASSERT_EQ(prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr), 0);
}

void AgentProcess::Stop() {
  kill(pid_, SIGSTOP);
  // Its threads go on until one of them has taken the signal, which may be late on a busy machine.
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED) != 0 && errno == EINTR) {
  }
}

uint64_t AgentProcess::StopUnder(rocksdb::FileSystem* fs) {
  const auto in_use = [fs] {
    const Stats s = StatsOf(fs);
    return s.failovers == s.reconnects;
  };
  EXPECT_TRUE(Eventually([&] {
    if (!in_use()) return false;
    Stop();
    if (in_use()) return true;
    Continue();
    return false;
  }));
  return StatsOf(fs).failovers;
}

void AgentProcess::Continue() { kill(pid_, SIGCONT); }
void AgentProcess::Kill() { Wait(SIGKILL); }
void AgentProcess::Terminate() { Wait(SIGTERM); }

void AgentProcess::Wait(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::shared_ptr<rocksdb::FileSystem> AgentProcess::Attach(const std::string& options) const {
  std::shared_ptr<rocksdb::FileSystem> fs;
  rocksdb::Status s;
  // The socket file is there a moment before it accepts.
  EXPECT_TRUE(Eventually([&] {
    s = NewFileSystem("pulse://" + socket() + options, nullptr, &fs);
    return s.ok();
  })) << s.ToString();
  return fs;
}

std::unique_ptr<rocksdb::FSWritableFile> CreateOutput(rocksdb::FileSystem* fs,
                                                      const std::string& path) {
  std::unique_ptr<rocksdb::FSWritableFile> f;
  const rocksdb::IOStatus s = fs->NewWritableFile(path, OutputOptions(), &f, nullptr);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return f;
}

void SyncDirectory(rocksdb::FileSystem* fs, const std::string& path) {
  const rocksdb::IOOptions io;
  std::unique_ptr<rocksdb::FSDirectory> d;
  ASSERT_TRUE(fs->NewDirectory(path, io, &d, nullptr).ok());
  const rocksdb::IOStatus s = d->Fsync(io, nullptr);
  ASSERT_TRUE(s.ok()) << s.ToString();
}

Stats StatsOf(rocksdb::FileSystem* fs) {
  Stats s{};
  EXPECT_TRUE(GetStats(fs, &s));
  return s;
}

}  // namespace pulse::lsm::test
