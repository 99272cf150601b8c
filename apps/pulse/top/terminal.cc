#include "apps/pulse/top/terminal.h"

#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <string_view>

#include "base/clock.h"
#include "base/errors.h"

namespace pulse::top {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr char kLeave[] = "\x1b[0m\x1b[?25h\x1b[?1049l";

void WriteAll(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the terminal is gone, which Wait sees
    text.remove_prefix(static_cast<size_t>(n));
  }
}

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP}) sigaddset(&set, s);
  return set;
}

}  // namespace

bool HasUnicode() {
  std::setlocale(LC_CTYPE, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

absl::StatusOr<std::unique_ptr<Terminal>> Terminal::Open() {
  std::unique_ptr<Terminal> t(new Terminal());
  if (tcgetattr(STDIN_FILENO, &t->before_) != 0)
    return ErrnoError(errno, "reading", "the terminal");
  const sigset_t set = WatchedSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  t->signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!t->signals_.valid()) return ErrnoError(errno, "watching", "signals");
  t->Enter();
  return t;
}

Terminal::~Terminal() {
  Leave();
  const sigset_t set = WatchedSignals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void Terminal::Enter() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  WriteAll(kEnter);
  entered_ = true;
}

void Terminal::Leave() {
  if (!entered_) return;
  entered_ = false;
  WriteAll(kLeave);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

Terminal::Size Terminal::SizeOf(int fd) {
  winsize w{};
  if (ioctl(fd, TIOCGWINSZ, &w) != 0 || w.ws_col == 0 || w.ws_row == 0) return {};
  return {w.ws_col, w.ws_row};
}

void Terminal::Draw(const std::vector<std::string>& lines) {
  std::string out = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    // Before the line: behind one that fills the screen it would take the last character.
    out += "\x1b[K";
    out += lines[i];
    if (i + 1 < lines.size()) out += "\r\n";
  }
  out += "\x1b[J";
  WriteAll(out);
}

bool Terminal::HandleSignal(Event* event) {
  signalfd_siginfo info;
  if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return false;
  switch (info.ssi_signo) {
    case SIGWINCH:
      *event = Event::kResized;
      return true;
    case SIGTSTP:
      Leave();
      kill(getpid(), SIGSTOP);  // and here the program goes on, once it is continued
      Enter();
      *event = Event::kResized;
      return true;
    case SIGINT:
      *event = Event::kQuit;
      return true;
    default:
      signal_ = static_cast<int>(info.ssi_signo);
      *event = Event::kQuit;
      return true;
  }
}

Terminal::Event Terminal::Wait(int timeout_ms) {
  const int64_t until = NowNanos() + int64_t{timeout_ms} * 1'000'000;
  while (true) {
    const int64_t left = (until - NowNanos() + 999'999) / 1'000'000;
    if (left <= 0) return Event::kTime;
    pollfd fds[2] = {{signals_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (poll(fds, 2, static_cast<int>(left)) <= 0) continue;
    if (Event event; fds[0].revents != 0 && HandleSignal(&event)) return event;
    if (fds[1].revents == 0) continue;
    char keys[64];
    const ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
    if (n <= 0 && (fds[1].revents & (POLLHUP | POLLERR)) != 0) return Event::kQuit;
    for (ssize_t i = 0; i < n; ++i) {
      if (keys[i] == 'q' || keys[i] == 'Q') return Event::kQuit;
    }
  }
}

}  // namespace pulse::top
