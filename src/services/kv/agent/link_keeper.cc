#include "services/kv/agent/link_keeper.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/kv/shm/attach.h"

namespace pulse::kv {
namespace {

constexpr int kHandshakeMs = 2000;
constexpr int64_t kFirstWait = 5'000'000;
constexpr int64_t kLongestWait = 250'000'000;

}  // namespace

absl::StatusOr<std::shared_ptr<LaneLink>> AttachLane(const std::string& path, int timeout_ms) {
  const int64_t deadline = NowNanos() + int64_t{timeout_ms} * 1'000'000;
  AttachOptions options;
  options.path = path;
  options.start = "pulse kv --agent-socket";
  options.service = kLaneService;
  options.version = kLaneVersion;
  options.least_bytes = sizeof(LaneHeader);
  PULSE_ASSIGN_OR_RETURN(Attachment made, AttachTo(options, timeout_ms, deadline));
  auto link = std::make_shared<LaneLink>();
  std::memcpy(&link->facts, made.region.data(), sizeof(link->facts));
  if (!link->facts.Valid() || link->facts.bytes() != made.bytes) {
    return NotAServer("its memory makes no sense");
  }
  link->socket = std::move(made.socket);
  link->region = std::move(made.region);
  LaneHeader* header = link->header();
  link->notify = Doorbell(std::move(made.notify.sleep), &header->agent_sleeping.value);
  PULSE_ASSIGN_OR_RETURN(UniqueFd kick, ReceiveKick(link->socket.get(), deadline));
  link->kick = Doorbell(std::move(kick), &header->host_sleeping.value);
  link->requests.emplace(link->facts.queue(), link->region.data() + LaneRequests());
  link->replies.emplace(link->facts.queue(), link->region.data() + LaneReplies(link->facts));
  return link;
}

void LinkKeeper::Add(AgentLane* lane) { kept_.push_back({lane, lane->loop()->remote(), nullptr}); }

absl::Status LinkKeeper::Start() {
  PULSE_ASSIGN_OR_RETURN(stop_, WakeEvent::Create());
  for (Kept& kept : kept_) TryAttach(&kept);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void LinkKeeper::Stop() {
  if (!thread_.joinable()) return;
  stop_.Set();
  thread_.join();
}

void LinkKeeper::TryAttach(Kept* kept) {
  auto link = AttachLane(path_, kHandshakeMs);
  if (!link.ok()) {
    if (!std::exchange(told_away_, true)) {
      Log(LogLevel::kWarn,
          absl::StrCat("clients get errors until the store is there: ", link.status().message()));
    }
    kept->wait = std::clamp(2 * kept->wait, kFirstWait, kLongestWait);
    kept->try_at = NowNanos() + kept->wait;
    return;
  }
  if (std::exchange(told_away_, false)) {
    Log(LogLevel::kWarn, absl::StrCat("the store at ", path_, " is there"));
  }
  kept->wait = 0;
  kept->link = *link;
  kept->loop->Post([lane = kept->lane, link = *std::move(link)] { lane->Attach(link); });
}

void LinkKeeper::Run() {
  pthread_setname_np(pthread_self(), "pulse-kv-link");
  while (true) {
    int64_t next = INT64_MAX;
    std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}};
    for (const Kept& kept : kept_) {
      fds.push_back({kept.link == nullptr ? -1 : kept.link->socket.get(), POLLIN, 0});
      if (kept.link == nullptr) next = std::min(next, kept.try_at);
    }
    const int64_t left = std::max<int64_t>(0, next - NowNanos());
    const int wait = next == INT64_MAX ? -1 : static_cast<int>(left / 1'000'000 + 1);
    if (poll(fds.data(), fds.size(), wait) < 0 && errno != EINTR) {
      Log(LogLevel::kError, ErrnoError(errno, "waiting on", path_).message());
      return;
    }
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < kept_.size(); ++i) {
      Kept& kept = kept_[i];
      // The store says nothing more on its socket: whatever comes is its end.
      if (kept.link != nullptr && fds[i + 1].revents != 0) {
        kept.link.reset();
        kept.loop->Post([lane = kept.lane] { lane->Lose(); });
        kept.try_at = 0;
        continue;
      }
      if (kept.link == nullptr && NowNanos() >= kept.try_at) TryAttach(&kept);
    }
  }
}

}  // namespace pulse::kv
