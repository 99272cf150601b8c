// One run of `pulse bench director`: a server that echoes, the director in front of it, or none,
// and the client. Each director is one loop, whose CPU time it tells itself.
#include <pthread.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/child_jobs.h"
#include "bench/load_client.h"
#include "bench/memory_meter.h"
#include "director/director.h"
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
class EchoFlow final : public director::Flow {
 public:
  EchoFlow(director::Connection* connection, bool forwards)
      : connection_(connection), forwards_(forwards) {}
  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override { return SplitEcho(bytes); }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override { return SplitEcho(bytes); }
  void OnRequest(director::Ticket ticket, std::string_view bytes) override {
    if (forwards_) {
      connection_->Forward(ticket, bytes);
    } else {
      connection_->Reply(ticket, bytes);
    }
  }
  // An empty message, which the client has not sent.
  std::string OnHostLost(director::Ticket, bool) override { return std::string(kEchoHead, '\0'); }
  std::string ErrorReply(const absl::Status&) override { return {}; }

 private:
  director::Connection* const connection_;
  const bool forwards_;
};

class EchoApplication final : public director::Application {
 public:
  explicit EchoApplication(bool forwards) : forwards_(forwards) {}
  std::unique_ptr<director::Flow> NewFlow(director::Connection* connection) override {
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
  explicit DirectorRun(const nlohmann::json& spec)
      : form(spec.at("form").get<std::string>()),
        net(spec.at("net").get<std::string>() == "epoll" ? director::NetKind::kEpoll
                                                         : director::NetKind::kUring),
        idle(spec.value("idle", false)),
        bytes(spec.at("bytes").get<size_t>()),
        connections(spec.at("connections").get<uint32_t>()),
        depth(spec.at("depth").get<uint32_t>()),
        warm(spec.value("warm", 0.0)),
        seconds(spec.value("seconds", 0.0)),
        host_cpus(spec.at("host_cpus").get<std::vector<int>>()),
        agent_cpus(spec.at("agent_cpus").get<std::vector<int>>()) {}
  std::string form;  // "direct", "forward" or "splice"
  director::NetKind net;
  bool idle;
  size_t bytes;
  uint32_t connections;
  uint32_t depth;
  double warm;
  double seconds;
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
};

// The server, and what is in front of it.
class Setup {
 public:
  absl::Status Open(const DirectorRun& o) {
    director::DirectorOptions options;
    options.net = o.net;
    options.application = &echo_;
    options.thread_name = "pulse-host-";
    options.cpus = o.host_cpus;
    options.limits.connections = std::max(options.limits.connections, o.connections + 16);
    auto host = director::Director::Open(options);
    if (!host.ok()) return host.status();
    host_ = *std::move(host);
    if (o.form == "direct") return absl::OkStatus();
    options.application = &forward_;
    options.host = absl::StrCat("127.0.0.1:", host_->port());
    options.thread_name = "pulse-agent-";
    options.cpus = o.agent_cpus;
    // Matches no TCP connection.
    if (o.form == "splice") options.signature = "unix,*,*,*,*";
    auto front = director::Director::Open(options);
    if (!front.ok()) return front.status();
    front_ = *std::move(front);
    return absl::OkStatus();
  }
  uint16_t port() const { return front_ == nullptr ? host_->port() : front_->port(); }
  const director::Director& host() const { return *host_; }
  const director::Director* front() const { return front_.get(); }

 private:
  EchoApplication echo_{false};
  EchoApplication forward_{true};
  std::unique_ptr<director::Director> host_;
  std::unique_ptr<director::Director> front_;
};

// CPU time of the loops, and what the front has counted.
struct LoopUse {
  explicit LoopUse(const Setup& setup) : host_nanos(setup.host().cpu_nanos()) {
    if (setup.front() == nullptr) return;
    front_nanos = setup.front()->cpu_nanos();
    const director::DirectorStats stats = setup.front()->stats();
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
  const bool right = o.form == "direct"    ? forwarded == 0 && spliced == 0
                     : o.form == "forward" ? forwarded == messages && spliced == 0
                                           : forwarded == 0 && all_spliced;
  if (right) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "of ", messages, " messages (", both_ways, " bytes both ways) ", forwarded,
      " were forwarded and ", spliced, " bytes spliced, which is not what \"", o.form, "\" is"));
}

absl::StatusOr<nlohmann::json> MeasureLoad(const DirectorRun& o, const Setup& setup) {
  EchoLoad load(o.bytes, 0);
  LoadClient client(&load, o.depth);
  PULSE_RETURN_IF_ERROR(client.Connect(setup.port(), o.connections));
  if (const auto warm = client.Run(o.warm); !warm.ok()) return warm.status();
  const LoopUse before(setup);
  const auto run = client.Run(o.seconds);
  if (!run.ok()) return run.status();
  const LoopUse after(setup);
  if (run->reads == 0) return absl::InternalError("no message came back in time");
  PULSE_RETURN_IF_ERROR(CheckForm(o, before, after, run->reads));
  const auto messages = static_cast<double>(run->reads);
  const auto micros = [&](double percentile) {
    return static_cast<double>(run->read_nanos.ValueAtPercentile(percentile)) / 1e3;
  };
  const double front = static_cast<double>(after.front_nanos - before.front_nanos) / 1e9;
  const double host = static_cast<double>(after.host_nanos - before.host_nanos) / 1e9;
  const double gbit = 2 * messages * static_cast<double>(o.bytes) * 8 / 1e9;
  nlohmann::json out = {{"messages", run->reads},
                        {"messages_per_s", messages / run->seconds},
                        {"p50_us", micros(50)},
                        {"p99_us", micros(99)},
                        {"p999_us", micros(99.9)},
                        {"host_us", host * 1e6 / messages},
                        {"loop_us", front * 1e6 / messages},
                        {"loop_share", front / run->seconds},
                        {"gbit_per_s", gbit / run->seconds}};
  if (front > 0) out["gbit_per_cpu_s"] = gbit / front;
  return out;
}

MemoryUse OwnMemory() {
  std::ifstream in("/proc/self/status");
  std::stringstream text;
  text << in.rdbuf();
  return ParseMemoryUse(text.str(), "");
}

// Connections that have asked once, so that each has all that it needs, and then keep quiet.
absl::StatusOr<nlohmann::json> MeasureIdle(const DirectorRun& o, const Setup& setup) {
  constexpr double kMib = 1 << 20;
  const MemoryUse before = OwnMemory();
  EchoLoad load(o.bytes, o.connections);
  LoadClient client(&load, 1);
  PULSE_RETURN_IF_ERROR(client.Connect(setup.port(), o.connections));
  const auto run = client.Run(o.seconds);
  if (!run.ok()) return run.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const MemoryUse after = OwnMemory();
  const director::Director& outer = setup.front() == nullptr ? setup.host() : *setup.front();
  const director::DirectorStats stats = outer.stats();
  if (run->reads != o.connections || stats.connections != o.connections) {
    return absl::InternalError(absl::StrCat("of ", o.connections, " connections ", run->reads,
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
  const DirectorRun o(spec);
  if (o.bytes < kEchoHead + sizeof(uint64_t) || o.bytes > kMostEcho) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message has ", kEchoHead + sizeof(uint64_t), " to ", kMostEcho, " bytes"));
  }
  Setup setup;
  PULSE_RETURN_IF_ERROR(setup.Open(o));
  return o.idle ? MeasureIdle(o, setup) : MeasureLoad(o, setup);
}

}  // namespace pulse::bench
