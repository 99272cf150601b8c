#include "apps/nbd/heartbeat.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace pulse::nbd {
namespace {

constexpr int kBeats = 4;

}  // namespace

Heartbeat::Heartbeat(files::Library* library, std::chrono::milliseconds limit)
    : library_(library),
      limit_(limit),
      beat_us_(limit.count() == 0 ? files::kForever
                                  : std::max<int64_t>(1, limit.count() * 1000 / kBeats)) {}

void Heartbeat::Look() {
  if (beat_us_ == files::kForever) return;
  std::lock_guard lock(mu_);
  const int64_t now = NowNanos();
  const int64_t since = now - looked_;
  if (since < beat_us_ * 1000) return;
  looked_ = now;
  const uint64_t progress = library_->Ping();
  // Nobody had looked for long: it was not asked for an answer.
  if (progress != progress_ || since > 2 * beat_us_ * 1000) {
    missed_ = 0;
  } else if (++missed_ >= kBeats) {
    silent_ = true;
  }
  progress_ = progress;
}

bool Heartbeat::GiveUp() {
  std::lock_guard lock(mu_);
  if (silent_) ++given_up_;
  return silent_;
}

void Heartbeat::Revive(uint64_t seen) {
  std::lock_guard lock(mu_);
  if (given_up_ != seen) return;  // somebody gave up just now
  missed_ = 0;
  silent_ = false;
}

absl::Status Heartbeat::Error() const {
  return absl::DeadlineExceededError(absl::StrCat(
      "the agent has shown no sign of life for ", limit_.count() / 1000.0,
      " s (timeout=); whether it carries out what it was asked is not known. Requests are served "
      "again once it has answered all that it was asked; an agent that stays silent is ended with "
      "SIGKILL and started again (pulse agent --store)"));
}

}  // namespace pulse::nbd
