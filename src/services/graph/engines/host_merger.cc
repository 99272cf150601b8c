#include "services/graph/engines/host_merger.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "channel/handshake.h"
#include "services/graph/engines/wire.h"

namespace pulse::graph::engines {
namespace {

constexpr int64_t kNanosPerMs = 1'000'000;

absl::Status Unavailable(const std::string& socket, absl::string_view why) {
  const std::string who = absl::StrCat("the agent at ", socket);
  // A link's errors name it already.
  return absl::UnavailableError(absl::StartsWith(why, who) ? std::string(why)
                                                           : absl::StrCat(who, ": ", why));
}

std::string HowToStart(const std::string& socket) {
  return absl::StrCat("pulse agent --socket ", socket, " --graph");
}

// However it shows: by the end of a socket, of the compaction or of the session, or by a failing
// send. `when`: "during a compaction".
absl::Status Lost(const std::string& socket, absl::string_view when) {
  return absl::UnavailableError(
      absl::StrCat("the agent at ", socket, " was lost ", when,
                   "; if it has ended, start it again with: ", HowToStart(socket)));
}

// The whole order, which waits in the socket until the agent takes it.
absl::Status PutOrder(int socket, const MergeJob& job) {
  const MergeOptions& o = job.options;
  const uint64_t flags = (o.bottom ? kBottom : 0) | (o.check_copied ? kCheckCopied : 0);
  const uint64_t piece_kib = std::clamp<uint64_t>(o.executor.max_piece_bytes >> 10, 1, 1 << 20);
  const uint64_t least = std::min<uint64_t>(o.executor.min_engine_bytes, ~uint32_t{0});
  PULSE_RETURN_IF_ERROR(SendMessage(
      socket,
      MakeMessage(
          wire::MessageType::kService,
          {job.runs.size() | flags << 32, o.oldest_snapshot, o.first_node, o.last_node,
           uint64_t{o.rows_per_segment} | (o.buffer_bytes >> 10) << 32, least | piece_kib << 32}),
      {job.output}, /*wait=*/false));
  for (size_t i = 0; i < job.runs.size(); ++i) {
    wire::Message input = MakeMessage(wire::MessageType::kService, {job.runs[i]->info().bytes});
    SetText(&input, job.runs[i]->name());
    PULSE_RETURN_IF_ERROR(SendMessage(socket, input, {job.files[i]}, /*wait=*/false));
  }
  return absl::OkStatus();
}

MergeStats StatsOf(const Report& r) {
  MergeStats s;
  s.nodes_copied = r.nodes_copied;
  s.nodes_merged = r.nodes_merged;
  s.bytes_copied = r.bytes_copied;
  s.bytes_encoded = r.bytes_encoded;
  s.column_bytes_copied = r.column_bytes_copied;
  s.column_bytes_encoded = r.column_bytes_encoded;
  s.records_in = r.records_in;
  s.records_out = r.records_out;
  s.versions_dropped = r.versions_dropped;
  s.tombstones_dropped = r.tombstones_dropped;
  s.waited_ns = r.waited_ns;
  s.copies.pieces = r.pieces;
  s.copies.bytes = r.plan_bytes;
  s.copies.engine_bytes = r.engine_bytes;
  s.copies.small_bytes = r.small_bytes;
  s.copies.fallback_bytes = r.fallback_bytes;
  return s;
}

}  // namespace

absl::StatusOr<std::shared_ptr<AgentLink>> AgentMerger::Connected() {
  const std::lock_guard lock(mu_);
  if (link_ != nullptr && !link_->Gone()) return link_;
  link_.reset();
  LinkOptions link;
  link.service = {kServiceId, kServiceVersion};
  link.socket_path = options_.socket;
  link.answer_ms = options_.silence_ms;
  auto connected = ConnectToAgent(link, /*cancel_fd=*/-1);
  if (!connected.ok()) {
    const absl::Status& why = connected.status();
    if (ErrnoOf(why) == ENOENT || ErrnoOf(why) == ECONNREFUSED) {
      return absl::UnavailableError(absl::StrCat("no agent at ", options_.socket, ": ",
                                                 strerror(ErrnoOf(why)),
                                                 "; start it with: ", HowToStart(options_.socket)));
    }
    if (absl::IsUnavailable(why)) return Lost(options_.socket, "in the handshake");
    return absl::UnavailableError(why.message());
  }
  link_ = *std::move(connected);
  return link_;
}

absl::Status AgentMerger::Connect() { return Connected().status(); }

absl::StatusOr<MergeStats> AgentMerger::Merge(const MergeJob& job) {
  if (job.files.size() != job.runs.size() || job.output < 0) {
    return absl::UnavailableError("an agent merges runs in files, into a file");
  }
  if (job.runs.empty() || job.runs.size() > kMostInputs) {
    return absl::UnavailableError(absl::StrCat("an agent merges 1 to ", kMostInputs,
                                               " runs at a time, not ", job.runs.size()));
  }
  PULSE_ASSIGN_OR_RETURN(const auto link, Connected());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(
        ErrnoError(errno, "making a socket for", "a compaction").message());
  }
  UniqueFd mine(ends[0]);
  UniqueFd theirs(ends[1]);
  if (absl::Status st = PutOrder(mine.get(), job); !st.ok()) {
    return Unavailable(options_.socket,
                       absl::StrCat("writing down the order of a compaction: ", st.message()));
  }
  const auto ack = link->Ask(MakeMessage(wire::MessageType::kService), {theirs.get()},
                             wire::MessageType::kServiceAck);
  theirs = UniqueFd();
  if (!ack.ok()) {
    // The agent may end between taking the order and answering that it did.
    if (!absl::IsUnavailable(ack.status())) {
      return Unavailable(options_.socket, ack.status().message());
    }
    link->Close();  // so that the next compaction connects anew, also where it does not look lost
    return Lost(options_.socket, "during a compaction");
  }
  bool reset = false, heard = false;
  uint64_t input = 0, moved = 0;
  for (const auto& run : job.runs) input += run->info().bytes;
  const auto seconds = static_cast<double>(input) / static_cast<double>(options_.least_rate);
  const int64_t end =
      NowNanos() + options_.silence_ms * kNanosPerMs + static_cast<int64_t>(seconds * 1e9);
  // Shown alive by what it sends on the compaction's socket, which ends with the agent.
  while (true) {
    pollfd wait{mine.get(), POLLIN, 0};
    const int64_t until = std::min(end, NowNanos() + options_.silence_ms * kNanosPerMs);
    int ready;
    do {
      const int64_t left = std::max<int64_t>(0, (until - NowNanos()) / kNanosPerMs);
      ready = poll(&wait, 1, static_cast<int>(left));
    } while (ready < 0 && errno == EINTR);
    if (heard && until == end && (ready == 0 || NowNanos() >= end)) {
      return Unavailable(options_.socket,
                         absl::StrCat("the compaction of ", input, " bytes does not get on"));
    }
    if (ready == 0) {
      return Unavailable(options_.socket, absl::StrCat("no sign of life for ", options_.silence_ms,
                                                       " ms: it hangs, or is stopped; restart it"));
    }
    Report report;
    const ssize_t n = recv(mine.get(), &report, sizeof(report), 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    // The agent has not read the whole order; what it says of it comes next.
    if (n < 0 && errno == ECONNRESET && !std::exchange(reset, true)) continue;
    if (n <= 0) return Lost(options_.socket, "during a compaction");
    if (n == sizeof(Progress)) {
      Progress progress;
      std::memcpy(&progress, &report, sizeof(progress));
      if (progress.bytes < moved) {
        return Unavailable(options_.socket, "its progress makes no sense");
      }
      moved = progress.bytes;
      heard = true;
      continue;
    }
    if (n != sizeof(report) || report.magic != kReportMagic) {
      return Unavailable(options_.socket, "it reports a compaction in a way that makes no sense");
    }
    report.text[sizeof(report.text) - 1] = '\0';
    if (report.code != 0) return Unavailable(options_.socket, report.text);
    return StatsOf(report);
  }
}

absl::StatusOr<MergeStats> ThreadMerger::Merge(const MergeJob& job) {
  absl::StatusOr<MergeStats> out = absl::UnknownError("not merged yet");
  // The program's signals are for its own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  absl::Status started;
  try {
    thread = std::thread([&] {
      SetThreadAffinity(cpus_).IgnoreError();  // CPUs that went away: any then
      const auto engine = CreateInlineCopyEngine({});
      const auto merged = MergeRuns(job.runs, job.options, engine->get(), job.sink);
      out = merged.ok() ? absl::StatusOr<MergeStats>(merged->stats) : merged.status();
    });
  } catch (const std::system_error& e) {
    started = absl::UnavailableError(absl::StrCat("starting a thread that merges: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  PULSE_RETURN_IF_ERROR(started);
  thread.join();
  return out;
}

}  // namespace pulse::graph::engines
