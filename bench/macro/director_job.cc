// One run of `pulse bench director`: a server that echoes, the director in front of it, or none,
// and the client. Each director is one loop, whose CPU time it tells itself.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/load_client.h"
#include "bench/macro/memory_meter.h"
#include "net/director.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

// A message: the length of what follows, and that. The host's order, as both ends are here.
constexpr size_t kEchoHead = sizeof(uint32_t);
constexpr size_t kMostEcho = size_t{1} << 20;

absl::StatusOr<size_t> SplitEcho(std::string_view bytes) {
  if (bytes.size() < kEchoHead) return size_t{0};
  uint32_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMostEcho) return absl::InvalidArgumentError("a message that is too long");
  return bytes.size() < kEchoHead + length ? 0 : kEchoHead + length;
}

// Answers itself, or has the host answer.
class EchoFlow final : public net::Flow {
 public:
  EchoFlow(net::Connection* connection, bool forwards)
      : connection_(connection), forwards_(forwards) {}
  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override { return SplitEcho(bytes); }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override { return SplitEcho(bytes); }
  void OnRequest(net::Ticket ticket, std::string_view bytes) override {
    if (forwards_) {
      connection_->Forward(ticket, bytes);
    } else {
      connection_->Reply(ticket, bytes);
    }
  }
  // An empty message, which the client has not sent.
  std::string OnHostLost(net::Ticket, bool) override { return std::string(kEchoHead, '\0'); }
  std::string ErrorReply(const absl::Status&) override { return {}; }

 private:
  net::Connection* const connection_;
  const bool forwards_;
};

class EchoApplication final : public net::Application {
 public:
  explicit EchoApplication(bool forwards) : forwards_(forwards) {}
  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override {
    return std::make_unique<EchoFlow>(connection, forwards_);
  }

 private:
  const bool forwards_;
};

// Messages that begin with their number; every byte that comes back is compared.
class EchoLoad final : public LoadProtocol {
 public:
  // `most`: so many messages in all; 0: no limit.
  EchoLoad(size_t bytes, uint64_t most) : message_(bytes, 'e'), most_(most) {
    const auto length = static_cast<uint32_t>(bytes - kEchoHead);
    std::memcpy(message_.data(), &length, sizeof(length));
  }
  bool Ask(std::string* out, Question* question) override {
    if (most_ != 0 && asked_ == most_) return false;
    question->what = ++asked_;
    out->append(Message(question->what));
    return true;
  }
  absl::StatusOr<size_t> Split(std::string_view bytes) override { return SplitEcho(bytes); }
  absl::Status Take(const Question& question, std::string_view reply) override {
    if (reply == Message(question.what)) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("message ", question.what, " did not come back as it was sent"));
  }

 private:
  std::string_view Message(uint64_t number) {
    std::memcpy(message_.data() + kEchoHead, &number, sizeof(number));
    return message_;
  }
  std::string message_;
  const uint64_t most_;
  uint64_t asked_ = 0;
};

// As the parent has asked for it.
struct DirectorRun {
  std::string form;  // "direct", "forward", "spin" or "splice"
  bool idle = false;
  size_t bytes = 0;
  uint32_t connections = 0;
  uint32_t depth = 0;
  int64_t spin_us = 0;  // of the front of "spin"
  double warm = 0;
  double seconds = 0;
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DirectorRun, form, idle, bytes, connections, depth,
                                                spin_us, warm, seconds, host_cpus, agent_cpus)

// The server, and what is in front of it.
class Setup {
 public:
  absl::Status OpenHost(const DirectorRun& o) {
    net::DirectorOptions options = OptionsOf(o);
    options.application = &echo_;
    options.thread_name = "pulse-host-";
    options.cpus = o.host_cpus;
    PULSE_ASSIGN_OR_RETURN(host_, net::Director::Open(options));
    return absl::OkStatus();
  }
  absl::Status OpenFront(const DirectorRun& o, uint32_t host_port) {
    net::DirectorOptions options = OptionsOf(o);
    options.application = &forward_;
    options.host = absl::StrCat("127.0.0.1:", host_port);
    options.thread_name = "pulse-agent-";
    options.cpus = o.agent_cpus;
    // Matches no TCP connection.
    if (o.form == "splice") options.match = {"protocol=unix"};
    if (o.form == "spin") options.spin_nanos = o.spin_us * 1000;
    PULSE_ASSIGN_OR_RETURN(front_, net::Director::Open(options));
    return absl::OkStatus();
  }
  // What the client meets.
  const net::Director& outer() const { return front_ == nullptr ? *host_ : *front_; }
  const net::Director* host() const { return host_.get(); }
  const net::Director* front() const { return front_.get(); }

 private:
  static net::DirectorOptions OptionsOf(const DirectorRun& o) {
    net::DirectorOptions options;
    options.limits.connections = std::max(options.limits.connections, o.connections + 16);
    return options;
  }

  EchoApplication echo_{false};
  EchoApplication forward_{true};
  std::unique_ptr<net::Director> host_;
  std::unique_ptr<net::Director> front_;
};

// CPU time of the loops, and what the front has counted.
struct LoopUse {
  explicit LoopUse(const Setup& setup) : host_nanos(setup.host()->cpu_nanos()) {
    if (setup.front() == nullptr) return;
    front_nanos = setup.front()->cpu_nanos();
    const net::DirectorStats stats = setup.front()->stats();
    forwarded = stats.forwarded;
    spliced_bytes = stats.spliced_bytes;
  }
  int64_t host_nanos = 0;
  int64_t front_nanos = 0;
  uint64_t forwarded = 0;
  uint64_t spliced_bytes = 0;
};

// What went through the front must have done so in the way that is measured.
absl::Status CheckForm(const DirectorRun& o, const LoopUse& before, const LoopUse& after,
                       uint64_t messages) {
  const uint64_t forwarded = after.forwarded - before.forwarded;
  const uint64_t spliced = after.spliced_bytes - before.spliced_bytes;
  const uint64_t both_ways = 2 * messages * o.bytes;
  // The loop counts bytes after it has moved them.
  const uint64_t slack = uint64_t{2} * o.connections * o.depth * o.bytes;
  const bool all_spliced =
      spliced > 0 && spliced + slack >= both_ways && spliced <= both_ways + slack;
  const bool right = o.form == "direct"   ? forwarded == 0 && spliced == 0
                     : o.form == "splice" ? forwarded == 0 && all_spliced
                                          : forwarded == messages && spliced == 0;
  if (right) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "of ", messages, " messages (", both_ways, " bytes both ways) ", forwarded,
      " were forwarded and ", spliced, " bytes spliced, which is not what \"", o.form, "\" is"));
}

absl::StatusOr<nlohmann::json> MeasureLoad(const DirectorRun& o) {
  Setup setup;
  PULSE_RETURN_IF_ERROR(setup.OpenHost(o));
  if (o.form != "direct") PULSE_RETURN_IF_ERROR(setup.OpenFront(o, setup.host()->port()));
  EchoLoad load(o.bytes, 0);
  LoadClient client(&load, o.depth);
  PULSE_RETURN_IF_ERROR(client.Connect(setup.outer().port(), o.connections));
  if (const auto warm = client.Run(o.warm); !warm.ok()) return warm.status();
  const LoopUse before(setup);
  PULSE_ASSIGN_OR_RETURN(const auto run, client.Run(o.seconds));
  const LoopUse after(setup);
  if (run.reads == 0) return absl::InternalError("no message came back in time");
  PULSE_RETURN_IF_ERROR(CheckForm(o, before, after, run.reads));
  const auto messages = static_cast<double>(run.reads);
  const auto micros = [&](double percentile) {
    return static_cast<double>(run.read_nanos.ValueAtPercentile(percentile)) / 1e3;
  };
  const double front = static_cast<double>(after.front_nanos - before.front_nanos) / 1e9;
  const double host = static_cast<double>(after.host_nanos - before.host_nanos) / 1e9;
  const double gbit = 2 * messages * static_cast<double>(o.bytes) * 8 / 1e9;
  nlohmann::json out = {{"messages", run.reads},
                        {"messages_per_s", messages / run.seconds},
                        {"p50_us", micros(50)},
                        {"p99_us", micros(99)},
                        {"p999_us", micros(99.9)},
                        {"host_us", host * 1e6 / messages},
                        {"loop_us", front * 1e6 / messages},
                        {"loop_share", front / run.seconds},
                        {"gbit_per_s", gbit / run.seconds}};
  if (front > 0) out["gbit_per_cpu_s"] = gbit / front;
  return out;
}

MemoryUse OwnMemory() {
  std::ifstream in("/proc/self/status");
  std::stringstream text;
  text << in.rdbuf();
  return ParseMemoryUse(text.str(), "");
}

// A process that holds other ends of connections than this one does: together they may be more than
// a process may open. It is told and tells numbers, and ends when its Helper does, the last one
// that was started first.
class Helper {
 public:
  ~Helper() {
    pipe_.reset();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  // Before this process has threads. `work` gets its end of the line.
  template <typename Work>
  absl::Status Start(Work work) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      return ErrnoError(errno, "making", "a pair of sockets");
    }
    pipe_ = UniqueFd(ends[0]);
    const UniqueFd theirs(ends[1]);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) return ErrnoError(errno, "starting", "a process that holds connections");
    if (pid_ > 0) return absl::OkStatus();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    pipe_.reset();
    const absl::Status done = work(theirs.get());
    if (!done.ok()) {
      fprintf(stderr, "pulse: %s\n", std::string(done.message()).c_str());
      _exit(1);
    }
    uint32_t end;
    while (recv(theirs.get(), &end, sizeof(end), 0) > 0) {
    }
    _exit(0);
  }
  static absl::Status Tell(int line, uint32_t number) {
    if (send(line, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number)) {
      return absl::OkStatus();
    }
    return ErrnoError(errno, "talking to", "a process that holds connections");
  }
  static absl::StatusOr<uint32_t> Hear(int line) {
    uint32_t number = 0;
    if (recv(line, &number, sizeof(number), 0) == sizeof(number)) return number;
    return absl::InternalError("a process that holds connections has failed; it has said why");
  }
  int line() const { return pipe_.get(); }

 private:
  UniqueFd pipe_;
  pid_t pid_ = 0;
};

absl::Status HoldHost(const DirectorRun& o, int line) {
  auto* const setup = new Setup;  // until the process ends
  PULSE_RETURN_IF_ERROR(setup->OpenHost(o));
  return Helper::Tell(line, setup->outer().port());
}

// Each connection asks once, so that it has all that it needs, and then keeps quiet.
absl::Status HoldClients(const DirectorRun& o, int line) {
  PULSE_ASSIGN_OR_RETURN(const auto port, Helper::Hear(line));
  auto* const load = new EchoLoad(o.bytes, o.connections);
  auto* const client = new LoadClient(load, 1);
  PULSE_RETURN_IF_ERROR(client->Connect(static_cast<uint16_t>(port), o.connections));
  PULSE_ASSIGN_OR_RETURN(const auto run, client->Run(o.seconds));
  return Helper::Tell(line, static_cast<uint32_t>(run.reads));
}

absl::StatusOr<nlohmann::json> MeasureIdle(const DirectorRun& o) {
  constexpr double kMib = 1 << 20;
  Helper host, clients;
  const bool direct = o.form == "direct";
  if (!direct) PULSE_RETURN_IF_ERROR(host.Start([&](int line) { return HoldHost(o, line); }));
  PULSE_RETURN_IF_ERROR(clients.Start([&](int line) { return HoldClients(o, line); }));
  Setup setup;
  if (direct) {
    PULSE_RETURN_IF_ERROR(setup.OpenHost(o));
  } else {
    PULSE_ASSIGN_OR_RETURN(const auto port, Helper::Hear(host.line()));
    PULSE_RETURN_IF_ERROR(setup.OpenFront(o, port));
  }
  const MemoryUse before = OwnMemory();
  PULSE_RETURN_IF_ERROR(Helper::Tell(clients.line(), setup.outer().port()));
  const auto answered = Helper::Hear(clients.line());
  if (!answered.ok()) return answered.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const MemoryUse after = OwnMemory();
  const net::DirectorStats stats = setup.outer().stats();
  if (*answered != o.connections || stats.connections != o.connections) {
    return absl::InternalError(absl::StrCat("of ", o.connections, " connections ", *answered,
                                            " were answered and ", stats.connections,
                                            " are there: the limits are too low, or this is slow"));
  }
  const double grown = static_cast<double>(after.resident) - static_cast<double>(before.resident);
  return nlohmann::json{{"connections", o.connections},
                        {"resident_mib", grown / kMib},
                        {"bytes_each", grown / o.connections},
                        {"held_bytes", stats.held_bytes}};
}

}  // namespace

absl::StatusOr<nlohmann::json> RunDirectorJob(const nlohmann::json& spec) {
  const auto o = spec.get<DirectorRun>();
  if (o.bytes < kEchoHead + sizeof(uint64_t) || o.bytes > kMostEcho) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has ", kEchoHead + sizeof(uint64_t), " to ", kMostEcho, " bytes"));
  }
  return o.idle ? MeasureIdle(o) : MeasureLoad(o);
}

}  // namespace pulse::bench
