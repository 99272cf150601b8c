#include "services/redis/commands/http_guard.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/redis/commands/commands.h"

namespace pulse::redis {
namespace {

constexpr int64_t kLogEveryNanos = int64_t{60} * 1'000'000'000;

}  // namespace

bool IsOfHttp(std::string_view name) {
  return EqualsIgnoringCase(name, "post") || EqualsIgnoringCase(name, "host:");
}

void NoteHttp(std::string_view peer) {
  static std::atomic<int64_t> next{0};
  const int64_t now = NowNanos();
  int64_t due = next.load(std::memory_order_relaxed);
  if (now < due || !next.compare_exchange_strong(due, now + kLogEveryNanos)) return;
  Log(LogLevel::kWarn,
      absl::StrCat("cut off ", absl::string_view(peer.data(), peer.size()),
                   ", which spoke HTTP: a web page may be trying to send commands; see "
                   "--requirepass"));
}

}  // namespace pulse::redis
