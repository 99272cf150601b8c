#include "apps/pulse/util/byte_progress.h"

#include <unistd.h>

#include <cstdio>

#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "base/clock.h"
#include "fmt/format.h"

namespace pulse {
namespace {

constexpr int64_t kQuietNanos = 2'000'000'000;
constexpr int64_t kRedrawEveryNanos = 200'000'000;
// Where lines cannot be redrawn.
constexpr int64_t kLineEveryNanos = 10'000'000'000;

}  // namespace

ByteProgress::ByteProgress() : start_(NowNanos()), terminal_(isatty(STDERR_FILENO) == 1) {}

ByteProgress::~ByteProgress() { ClearLine(); }

double ByteProgress::Seconds() const { return static_cast<double>(NowNanos() - start_) / 1e9; }

void ByteProgress::ClearLine() {
  if (!line_open_) return;
  std::fputs("\r\033[K", stderr);
  line_open_ = false;
}

void ByteProgress::Update(const char* what, uint64_t done, uint64_t total) {
  const int64_t now = NowNanos();
  if (now - start_ < kQuietNanos) return;
  if (line_at_ != 0 && now - line_at_ < (terminal_ ? kRedrawEveryNanos : kLineEveryNanos)) return;
  line_at_ = now;
  ClearLine();
  const double rate = static_cast<double>(done) / Seconds();
  std::string left;
  if (done > 0 && done < total) {
    left = fmt::format(", {} left", FormatDuration(static_cast<double>(total - done) / rate));
  }
  fmt::print(stderr, "{}: {} of {}, {}/s{}{}", what, FormatBytes(done), FormatBytes(total),
             FormatBytes(static_cast<uint64_t>(rate)), left, terminal_ ? "" : "\n");
  std::fflush(stderr);
  line_open_ = terminal_;
}

}  // namespace pulse
