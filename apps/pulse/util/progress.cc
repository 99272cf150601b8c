#include "apps/pulse/util/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/clock.h"
#include "fmt/format.h"

namespace pulse {
namespace {

constexpr int64_t kQuietNanos = 2'000'000'000;
// Where lines cannot be redrawn, one now and then.
constexpr int64_t kLineEveryNanos = 10'000'000'000;
constexpr int64_t kRedrawEveryNanos = 200'000'000;

double Seconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

std::string FormatDuration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  const int minutes = static_cast<int>(seconds / 60 + 0.5);
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

double SecondsLeft(double all, double done, double seconds_done, double seconds_of_this,
                   double step) {
  if (done >= all) return 0;
  if (done <= 0) {
    // All that is known is that one takes at least so long.
    return -1;
  }
  const double each = seconds_done / done;
  // A step that takes longer than the others were makes those after it no shorter.
  return each * std::max(0.0, all - done - step) + std::max(0.0, each * step - seconds_of_this);
}

Progress::Progress(int steps, double seconds)
    : start_(NowNanos()),
      steps_(steps),
      estimated_(seconds > 0),
      all_(estimated_ ? seconds : steps),
      terminal_(isatty(STDERR_FILENO) == 1 && HasTerminalSequences()) {}

Progress::~Progress() { ClearLine(); }

bool Progress::Quiet() const { return NowNanos() - start_ < kQuietNanos; }

std::string Progress::Eta() const {
  const double this_step = running_ ? Seconds(NowNanos() - step_start_) : 0;
  double left = SecondsLeft(all_, of_done_, Seconds(step_start_ - start_), this_step, each_);
  if (left < 0 && estimated_) left = std::max(0.0, all_ - this_step);
  if (left < 0) return ", time left known after the first";
  return left < 1 ? "" : fmt::format(", {} left", FormatDuration(left));
}

void Progress::ClearLine() {
  if (!line_open_) return;
  std::fputs("\r\033[K", stderr);
  line_open_ = false;
}

void Progress::Begin(const std::string& what) {
  what_ = what;
  running_ = true;
  step_start_ = line_at_ = NowNanos();
  Tick();
}

bool Progress::Due(int64_t now, int64_t redraw_every) {
  if (Quiet() || now - line_at_ < (terminal_ ? redraw_every : kLineEveryNanos)) return false;
  line_at_ = now;
  return true;
}

void Progress::Show(const std::string& line) {
  ClearLine();
  winsize window{};
  const bool cut = terminal_ && ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  // Of a line that the terminal wraps, only the last part would be cleared.
  fmt::print(stderr, "{}{}", cut ? FirstColumns(line, window.ws_col) : std::string_view(line),
             terminal_ ? "" : "\n");
  std::fflush(stderr);
  line_open_ = terminal_;
}

void Progress::Tick() {
  const int64_t now = NowNanos();
  if (!Due(now, 0)) return;
  Show(fmt::format("[{}/{}] {} ... {:.0f} s{}", done_ + 1, steps_, what_,
                   Seconds(now - step_start_), Eta()));
}

double Progress::Elapsed() const { return Seconds(NowNanos() - start_); }

void Progress::Bytes(const char* what, uint64_t done, uint64_t total) {
  if (!Due(NowNanos(), kRedrawEveryNanos)) return;
  const double rate = static_cast<double>(done) / Elapsed();
  std::string left;
  if (done > 0 && done < total) {
    left = fmt::format(", {} left", FormatDuration(static_cast<double>(total - done) / rate));
  }
  Show(fmt::format("{}: {} of {}, {}/s{}", what, FormatBytes(done), FormatBytes(total),
                   FormatBytes(static_cast<uint64_t>(rate)), left));
}

void Progress::Items(const char* what, uint64_t done, uint64_t total) {
  if (!Due(NowNanos(), kRedrawEveryNanos)) return;
  Show(done == 0 ? fmt::format("{}: {}", what, total)
                 : fmt::format("{}: {} of {}", what, done, total));
}

void Progress::End(const std::string& result) {
  ++done_;
  of_done_ += each_;
  running_ = false;
  step_start_ = NowNanos();
  ClearLine();
  if (Quiet()) return;
  fmt::print(stderr, "[{}/{}] {}: {}{}\n", done_, steps_, what_, result, Eta());
}

}  // namespace pulse
