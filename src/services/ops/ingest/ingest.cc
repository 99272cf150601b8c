#include "services/ops/ingest/ingest.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/background.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"

namespace pulse::ingest {
namespace {

constexpr int kBacklog = 128;
constexpr int kConnectMs = 10'000;
// After accept() has failed for want of descriptors or memory.
constexpr int kPauseMs = 100;
// A host that has everything, and neither speaks nor ends its side for a minute, is left: it would
// hold one of the places for ever.
constexpr int kIdleLookMs = 1000, kIdleLooks = 60;
// For hosts that read, when the agent stops.
constexpr std::chrono::seconds kPatience{1};

// The peer sees a reset, and not an end.
void Reset(int socket) {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

// As the client has sent them; of another family than TCP 0.
uint64_t BytesReceived(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_received;
}

// A connection that blocks.
absl::StatusOr<UniqueFd> Connect(const net::Address& address) {
  const std::string name = address.ToString();
  UniqueFd fd(net::StartConnect(address));
  if (!fd.valid()) return ErrnoError(-fd.get(), "connecting to", name);
  pollfd wait{fd.get(), POLLOUT, 0};
  int ready;
  do {
    ready = poll(&wait, 1, kConnectMs);
  } while (ready < 0 && errno == EINTR);
  const int error = ready > 0 ? net::ConnectError(fd.get()) : ready == 0 ? ETIMEDOUT : errno;
  if (error != 0) return ErrnoError(error, "connecting to", name);
  if (fcntl(fd.get(), F_SETFL, 0) != 0) return ErrnoError(errno, "connecting to", name);
  net::TuneSocket(fd.get(), 0);  // a host that is gone is noticed; one that reads slowly is not
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IngestServer>> IngestServer::Open(
    IngestOptions options, std::shared_ptr<const filter::RuleSet> rules) {
  PULSE_RETURN_IF_ERROR(net::CheckFree(options.listen));
  std::unique_ptr<IngestServer> server(new IngestServer(std::move(options), std::move(rules)));
  PULSE_ASSIGN_OR_RETURN(server->listener_, net::Listen(server->options_.listen, kBacklog));
  server->options_.listen = net::LocalAddress(server->listener_.get());
  server->wake_.reset(eventfd(0, EFD_CLOEXEC));
  if (!server->wake_.valid()) return ErrnoError(errno, "listening at", "an eventfd");
  server->acceptor_ = std::thread([s = server.get()] { s->Accept(); });
  return server;
}

IngestServer::~IngestServer() { Stop(); }

void IngestServer::Stop() {
  if (stopping_.exchange(true)) return;
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  std::unique_lock lock(mu_);
  // Their readers find an end; Serve knows that it is none.
  for (Stream& stream : streams_) shutdown(stream.client.get(), SHUT_RDWR);
  ended_.notify_all();
  lock.unlock();
  if (acceptor_.joinable()) acceptor_.join();
  lock.lock();
  const auto all_ended = [this] {
    return std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.done; });
  };
  if (!ended_.wait_for(lock, kPatience, all_ended)) {
    // Those whose hosts do not read: the end that this makes stays behind what they have not taken,
    // until the reset overtakes both.
    for (Stream& stream : streams_) shutdown(stream.host.get(), SHUT_RDWR);
    ended_.wait(lock, all_ended);
  }
  ReapLocked(&lock);
}

IngestStats IngestServer::stats() const {
  std::lock_guard lock(mu_);
  IngestStats now = stats_;
  for (const Stream& stream : streams_) now.open += stream.done ? 0 : 1;
  return now;
}

void IngestServer::ReapLocked(std::unique_lock<std::mutex>* lock) {
  std::list<Stream> gone;
  for (auto it = streams_.begin(); it != streams_.end();) {
    const auto next = std::next(it);
    if (it->done) gone.splice(gone.end(), streams_, it);
    it = next;
  }
  lock->unlock();
  for (Stream& stream : gone) stream.thread.join();
  lock->lock();
}

void IngestServer::Accept() {
  while (!stopping_.load()) {
    {
      std::unique_lock lock(mu_);
      ReapLocked(&lock);
      ended_.wait(lock, [this] {
        if (stopping_.load()) return true;
        int open = 0;
        for (const Stream& stream : streams_) open += stream.done ? 0 : 1;
        return open < options_.max_streams;
      });
    }
    pollfd wait[2] = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (poll(wait, 2, -1) < 0 && errno != EINTR) {
      Log(LogLevel::kError, absl::StrCat("ingest stops accepting: ", strerror(errno)));
      return;
    }
    if (stopping_.load()) return;
    UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      LogOnce("ingest accept", absl::StrCat("ingest cannot accept a client now: ", strerror(errno),
                                            "; it goes on trying"));
      poll(&wait[1], 1, kPauseMs);
      continue;
    }
    net::TuneSocket(client.get(), 0);
    std::lock_guard lock(mu_);
    if (stopping_.load()) {
      Reset(client.get());
      return;
    }
    streams_.emplace_back();
    Stream* const stream = &streams_.back();
    stream->client = std::move(client);
    try {
      stream->thread = std::thread([this, stream] { Serve(stream); });
    } catch (const std::system_error&) {
      LogOnce("ingest thread", absl::StrCat("ingest resets a client's stream: ",
                                            NoThreadError().message(), "; it goes on accepting"));
      Reset(stream->client.get());
      streams_.pop_back();
      ++stats_.streams;
      ++stats_.failed;
    }
  }
}

absl::StatusOr<filter::FilterOutcome> IngestServer::Filter(Stream* stream,
                                                           const std::string& name) {
  // Before the threads of stages and queues are started, which inherit it.
  EnterBackground(options_.idle_only);
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(options_.cpus));
  PULSE_ASSIGN_OR_RETURN(UniqueFd connected, Connect(options_.host));
  const int host = connected.get();
  {
    std::lock_guard lock(mu_);
    stream->host = std::move(connected);
    if (stopping_.load()) return absl::CancelledError("the agent stops");
  }
  filter::FilterOptions options;
  options.selection = options_.selection;
  options.source.records = rules_->records();
  options.source.max_record = options_.max_record;
  options.source.max_record_option = "--ingest-max-line";
  options.max_decompressed = options_.max_decompressed;
  options.max_decompressed_option = "--ingest-max-decompressed";
  options.source.name = absl::StrCat("the stream of ", name);
  options.out_name = absl::StrCat("the host at ", options_.host.ToString());
  options.processors.agent_cpus = options_.cpus;
  PULSE_ASSIGN_OR_RETURN(filter::FilterOutcome outcome,
                         filter::RunFilter(*rules_, options, stream->client.get(), host));
  if (outcome.reader_gone) {
    return absl::UnavailableError(absl::StrCat(options.out_name, " has gone away"));
  }
  return outcome;
}

// Ends the host's stream, and waits until the host has ended its side: closing before, beside bytes
// that it may have sent, would be a reset.
void IngestServer::EndStream(int host) {
  shutdown(host, SHUT_WR);
  pollfd wait[2] = {{host, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  char ignored[4096];
  int idle = 0;  // looks at a host that has received everything, and says nothing
  while (!stopping_.load() && idle < kIdleLooks) {
    const int ready = poll(wait, 2, kIdleLookMs);
    if (ready < 0 && errno != EINTR) return;
    if (ready == 0) {
      int unacknowledged = 0;
      if (ioctl(host, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0) ++idle;
      continue;
    }
    if ((wait[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    idle = 0;
    const ssize_t n = recv(host, ignored, sizeof(ignored), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return;
  }
}

void IngestServer::Serve(Stream* stream) {
  const int client = stream->client.get();
  const std::string name = net::PeerAddress(client).ToString();
  absl::StatusOr<filter::FilterOutcome> outcome = Filter(stream, name);
  if (stopping_.load()) outcome = absl::CancelledError("the agent stops");
  const uint64_t received = BytesReceived(client);
  if (outcome.ok()) {
    if (outcome->garbage_offset.has_value()) {
      Log(LogLevel::kWarn,
          absl::StrCat("ingest: the stream of ", name, " has trailing garbage from offset ",
                       *outcome->garbage_offset, " on, which is ignored"));
    }
    EndStream(stream->host.get());
  } else {
    Reset(client);
    if (stream->host.valid()) Reset(stream->host.get());
    Log(LogLevel::kWarn,
        // Some causes name the stream themselves.
        absl::StrCat("ingest: reset the connections of ", name, ": ", outcome.status().message()));
  }
  std::lock_guard lock(mu_);
  stream->host.reset();
  stream->client.reset();
  stream->done = true;
  ++stats_.streams;
  stats_.bytes_received += received;
  if (outcome.ok()) {
    stats_.garbage += outcome->garbage_offset.has_value() ? 1 : 0;
    stats_.bytes_filtered += outcome->stats.input_bytes;
    stats_.bytes_sent += outcome->stats.output_bytes;
    stats_.records_sent += outcome->selected;
  } else {
    ++stats_.failed;
  }
  ended_.notify_all();
}

NumberGroup IngestNumbers(const IngestStats& stats) {
  constexpr auto kCounter = NumberKind::kCounter;
  static constexpr NumberSpec kSpecs[] = {
      {"streams", Unit::kCount, kCounter, "pulse_ingest_streams_total",
       "Clients' streams that have ended, in whatever way."},
      {"failed", Unit::kCount, kCounter, "pulse_ingest_streams_failed_total",
       "Of them: were reset, since they could not be read or passed on to their end."},
      {"open", Unit::kCount, NumberKind::kGauge, "pulse_ingest_streams_open",
       "Streams that are filtered now."},
      {"garbage", Unit::kCount, kCounter, "pulse_ingest_streams_with_garbage_total",
       "Compressed streams that had something else behind their end, which was ignored."},
      {"bytes_received", Unit::kBytes, kCounter, "pulse_ingest_received_bytes_total",
       "Bytes of the streams that have ended, as clients sent them."},
      {"bytes_filtered", Unit::kBytes, kCounter, "pulse_ingest_filtered_bytes_total",
       "Bytes after decompression, of streams that were not reset."},
      {"bytes_sent", Unit::kBytes, kCounter, "pulse_ingest_sent_bytes_total",
       "Bytes to the host, of streams that were not reset."},
      {"records_sent", Unit::kCount, kCounter, "pulse_ingest_sent_records_total",
       "Records to the host, of streams that were not reset."},
  };
  return {"ingest",
          {{&kSpecs[0], stats.streams},
           {&kSpecs[1], stats.failed},
           {&kSpecs[2], stats.open},
           {&kSpecs[3], stats.garbage},
           {&kSpecs[4], stats.bytes_received},
           {&kSpecs[5], stats.bytes_filtered},
           {&kSpecs[6], stats.bytes_sent},
           {&kSpecs[7], stats.records_sent}}};
}

}  // namespace pulse::ingest
