#include "base/stop_signal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/testing.h"

namespace pulse {
namespace {

// What a service manager's socket hears next; empty after a minute.
std::string Heard(const UniqueFd& manager) {
  pollfd ready{manager.get(), POLLIN, 0};
  if (poll(&ready, 1, 60'000) != 1) return "";
  std::array<char, 64> text{};
  const ssize_t n = read(manager.get(), text.data(), text.size());
  return n < 0 ? "" : std::string(text.data(), static_cast<size_t>(n));
}

// A program that waits for its end, under a manager that listens on `address`.
void RunUnderManager(const sockaddr_un& address, socklen_t length, const std::string& name) {
  UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(manager.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    StopSignal stop;
    stop.Wait();
    _exit(7);
  }
  EXPECT_EQ(Heard(manager), "READY=1");
  kill(child, SIGTERM);
  EXPECT_EQ(Heard(manager), "STOPPING=1");
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(StopSignalTest, Wait_ServiceManagerWithAPath_HearsReadyAndStopping) {
  const testing_util::ScratchPath path("notify");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.get().size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.get().size());
  RunUnderManager(address, sizeof(address), path.get());
}

TEST(StopSignalTest, Wait_ServiceManagerWithAnAbstractName_HearsReadyAndStopping) {
  const std::string name = "@pulse-stop-signal-test-" + std::to_string(getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  RunUnderManager(address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()),
                  name);
}

// How a program ends that is sent SIGHUP, and then SIGTERM if that has not ended it.
int StatusAfterHangUp(StopSignal::OnHangUp on_hang_up) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGHUP, SIG_DFL);
    StopSignal stop(on_hang_up);
    raise(SIGHUP);
    raise(SIGTERM);
    stop.Wait();
    _exit(7);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(StopSignalTest, HangUp_Server_GoesOnUntilItIsStopped) {
  const int status = StatusAfterHangUp(StopSignal::OnHangUp::kGoOn);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// What a server does before it waits may take minutes.
TEST(StopSignalTest, SignalBeforeWait_OfAServer_EndsItAtOnce) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const pid_t child = fork();
    if (child == 0) {
      const StopSignal stop;
      kill(getpid(), signal);
      while (true) pause();
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
  }
}

TEST(StopSignalTest, HangUp_ProgramThatFollowsItsTerminal_Ends) {
  const int status = StatusAfterHangUp(StopSignal::OnHangUp::kEnd);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGHUP);
}

// Whether the process has ended, or waits for something.
bool IsAsleep(pid_t pid) {
  char state = 'Z';
  FILE* const file = fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (file == nullptr) return true;
  if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'Z';
  fclose(file);
  return state != 'R' && state != 'D';
}

TEST(StopSignalTest, Tell_ManagerWhoseQueueIsFull_HearsItLater) {
  const testing_util::ScratchPath path("notify-full");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.get().size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.get().size());
  const UniqueFd manager(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(bind(manager.get(), name, sizeof(address)), 0);
  const UniqueFd other(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int before = 0;
  while (sendto(other.get(), "x", 1, MSG_DONTWAIT, name, sizeof(address)) == 1) ++before;
  const pid_t child = fork();
  if (child == 0) {
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    TellServiceManager("READY=1");
    _exit(7);
  }
  while (!IsAsleep(child)) sched_yield();
  for (; before > 0; --before) EXPECT_EQ(Heard(manager), "x");
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  char text[16] = {};
  EXPECT_EQ(recv(manager.get(), text, sizeof(text), MSG_DONTWAIT), 7) << "it was not told";
  EXPECT_STREQ(text, "READY=1");
}

TEST(StopSignalTest, Wait_ManagerThatIsNotThere_OnlyWaits) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string longer(200, 'x');
    for (const char* name : {"", "@", "/no/where/notify", longer.c_str()}) {
      setenv("NOTIFY_SOCKET", name, 1);
      TellServiceManager("READY=1");
    }
    _exit(7);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace pulse
