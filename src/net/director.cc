#include "net/director.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "net/address.h"
#include "net/loop.h"

namespace pulse::net {
namespace {

constexpr int kBacklog = 4096;

absl::Status Check(const DirectorOptions& o) {
  if (o.application == nullptr) return absl::InvalidArgumentError("a director has no application");
  if (o.threads < 1 || o.threads > kMostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(o.threads, " threads for connections: use 1 to ", kMostThreads));
  }
  if (o.listen.empty()) return absl::InvalidArgumentError("a director has no address to listen on");
  const DirectorLimits& l = o.limits;
  if (l.connections == 0 || l.max_message == 0 || l.connection_bytes == 0 || l.outstanding == 0 ||
      l.connect_ms <= 0 || l.back_off_ms <= 0 || l.back_off_max_ms < l.back_off_ms) {
    return absl::InvalidArgumentError(
        "a director's limits of connections, bytes, requests and the host's times must be above 0");
  }
  return absl::OkStatus();
}

// Each connection takes a descriptor, and one more towards the host.
void AllowDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Director::Director() : shared_(std::make_unique<DirectorShared>()) {}

absl::StatusOr<std::unique_ptr<Director>> Director::Open(DirectorOptions options) {
  PULSE_RETURN_IF_ERROR(Check(options));
  AllowDescriptors();
  std::unique_ptr<Director> director(new Director());
  director->shared_->options = std::move(options);
  const DirectorOptions& o = director->shared_->options;
  director->shared_->budget =
      o.budget != nullptr
          ? o.budget
          : std::make_shared<ByteBudget>(
                o.limits.all_bytes, ByteBudget::SmallFor(o.limits.all_bytes, o.limits.connections));
  if (!o.host.empty()) {
    PULSE_ASSIGN_OR_RETURN(director->shared_->host, ParseAddress(o.host));
  }
  PULSE_ASSIGN_OR_RETURN(director->shared_->signature, Signature::Parse(o.match));
  if (absl::Status st = director->Listen(); !st.ok()) return st;
  return director;
}

absl::Status Director::Listen() {
  const DirectorOptions& o = shared_->options;
  std::vector<std::vector<UniqueFd>> listeners(static_cast<size_t>(o.threads));
  for (const std::string& text : o.listen) {
    PULSE_ASSIGN_OR_RETURN(auto address, ParseAddress(text));
    const uint16_t first = address.port();
    const bool is_first_tcp = !address.is_unix() && ports_.empty();
    const int last = first + o.threads - 1;
    if (o.port_per_loop && first != 0 && last > UINT16_MAX) {
      return absl::InvalidArgumentError(absl::StrCat("port ", first, " and those that follow for ",
                                                     o.threads, " threads end at ", last,
                                                     ": choose a lower port"));
    }
    if (first != 0) PULSE_RETURN_IF_ERROR(CheckFree(address));
    for (auto& mine : listeners) {
      // Loops share a Unix socket's queue; TCP has one for each.
      if (address.is_unix() && &mine != &listeners.front()) {
        mine.push_back(listeners.front().back().Dup());
        continue;
      }
      if (o.port_per_loop && &mine != &listeners.front()) {
        address.set_port(first == 0 ? 0 : static_cast<uint16_t>(address.port() + 1));
        if (first != 0) PULSE_RETURN_IF_ERROR(CheckFree(address));
      }
      PULSE_ASSIGN_OR_RETURN(auto fd, net::Listen(address, kBacklog));
      if (address.is_unix()) {
        socket_files_.emplace_back(address.ToString().substr(5));
      } else {
        address = LocalAddress(fd.get());  // the others take the port that this one got
        if (is_first_tcp) ports_.push_back(address.port());
      }
      mine.push_back(std::move(fd));
    }
  }
  if (o.on_listening != nullptr) o.on_listening(ports_);
  for (int i = 0; i < o.threads; ++i) {
    PULSE_ASSIGN_OR_RETURN(
        auto loop, Loop::Start(i, shared_.get(), std::move(listeners[static_cast<size_t>(i)])));
    loops_.push_back(std::move(loop));
  }
  local_port_ = std::make_shared<LocalPort>();
  for (const auto& loop : loops_) local_port_->Add(loop.get());
  return absl::OkStatus();
}

Director::~Director() { Stop(); }

void Director::Stop() {
  if (local_port_ != nullptr) local_port_->Close();
  // Before the listeners are closed: from then on a successor may take the names.
  for (MadeFile& file : socket_files_) file.Remove();
  for (const auto& loop : loops_) loop->BeginStop();
  for (const auto& loop : loops_) loop->Join();
}

int64_t Director::cpu_nanos() const {
  int64_t sum = 0;
  for (const auto& loop : loops_) sum += loop->cpu_nanos();
  return sum;
}

DirectorStats Director::stats() const {
  DirectorStats s;
  for (const auto& loop : loops_) {
    const LoopStats& l = loop->stats();
    s.connections += l.Get(LoopStats::kConnections);
    s.spliced_connections += l.Get(LoopStats::kSpliced);
    s.accepted += l.Get(LoopStats::kAccepted);
    s.refused += l.Get(LoopStats::kRefused);
    s.cut += l.Get(LoopStats::kCut);
    s.requests += l.Get(LoopStats::kRequests);
    s.forwarded += l.Get(LoopStats::kForwarded);
    s.lost += l.Get(LoopStats::kLost);
    s.host_connections += l.Get(LoopStats::kHostConnections);
    s.host_failures += l.Get(LoopStats::kHostFailures);
    s.spliced_bytes += l.Get(LoopStats::kSplicedBytes);
    s.held_bytes += l.Get(LoopStats::kHeld);
    s.pauses += l.Get(LoopStats::kPauses);
    s.received_bytes += l.Get(LoopStats::kReceivedBytes);
    s.sent_bytes += l.Get(LoopStats::kSentBytes);
  }
  return s;
}

}  // namespace pulse::net
