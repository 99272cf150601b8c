#include "util/progress.h"

#include <unistd.h>

#include <cstdio>

#include "base/clock.h"
#include "fmt/format.h"

namespace pulse {
namespace {

constexpr int64_t kQuietNanos = 2'000'000'000;
// Where lines cannot be redrawn, one now and then.
constexpr int64_t kLineEveryNanos = 10'000'000'000;

double Seconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

std::string FormatDuration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  const int minutes = static_cast<int>(seconds / 60 + 0.5);
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

Progress::Progress(int steps)
    : start_(NowNanos()), steps_(steps), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { ClearLine(); }

bool Progress::Quiet() const { return NowNanos() - start_ < kQuietNanos; }

std::string Progress::Eta() const {
  if (done_ == 0) return "";
  const double each = Seconds(step_start_ - start_) / done_;
  const double left = each * (steps_ - done_) - Seconds(NowNanos() - step_start_);
  return left < 1 ? "" : fmt::format(", {} left", FormatDuration(left));
}

void Progress::ClearLine() {
  if (!line_open_) return;
  std::fputs("\r\033[K", stderr);
  line_open_ = false;
}

void Progress::Begin(const std::string& what) {
  what_ = what;
  step_start_ = line_at_ = NowNanos();
  Tick();
}

void Progress::Tick() {
  const int64_t now = NowNanos();
  if (Quiet() || (!terminal_ && now - line_at_ < kLineEveryNanos)) return;
  line_at_ = now;
  ClearLine();
  fmt::print(stderr, "[{}/{}] {} ... {:.0f} s{}{}", done_ + 1, steps_, what_,
             Seconds(now - step_start_), Eta(), terminal_ ? "" : "\n");
  std::fflush(stderr);
  line_open_ = terminal_;
}

void Progress::End(const std::string& result) {
  ++done_;
  step_start_ = NowNanos();
  ClearLine();
  if (Quiet()) return;
  fmt::print(stderr, "[{}/{}] {}: {}{}\n", done_, steps_, what_, result, Eta());
}

}  // namespace pulse
