// One run of `pulse bench serve`: the server, its agent and the client in this process, told apart
// by the names of their threads.
#include <pthread.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/cpu_meter.h"
#include "bench/macro/load_client.h"
#include "bench/macro/neighbours.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/workload_spec.h"
#include "examples/common/load.h"
#include "net/application.h"
#include "nlohmann/json.hpp"
#include "services/redis/commands/codec.h"
#include "services/redis/offload/resp.h"
#include "services/redis/serve.h"

namespace pulse::bench {
namespace {

absl::StatusOr<size_t> SplitRespReply(std::string_view bytes) {
  return redis::ReplySplitter().Next(bytes);
}

std::string FirstLine(std::string_view reply) {
  return std::string(reply.substr(0, std::min<size_t>(reply.find('\r'), 200)));
}

// GETs and SETs of records; each value read is checked. A record has a version, which its value
// begins with: a read must see at least the one that was acknowledged when it was asked for, and at
// most the one that was sent last. No record has two writes outstanding.
class RecordLoad final : public LoadProtocol {
 public:
  // All records once, in order.
  struct Fill {};
  RecordLoad(uint64_t records, size_t value_bytes, uint64_t seed, Fill)
      : RecordLoad(WorkloadSpec{}, records, records, value_bytes, seed) {
    fill_ = true;
  }
  // What `workload` says, on the first `used` records.
  RecordLoad(WorkloadSpec workload, uint64_t used, uint64_t records, size_t value_bytes,
             uint64_t seed)
      : workload_(std::move(workload)),
        counter_(used),
        keys_(workload_.distribution, used, &counter_, Mix(seed + 11)),
        random_(Mix(seed + 12)),
        values_(value_bytes, kValueSeed),
        acknowledged_(records),
        issued_(records) {}

  bool Ask(std::string* out, Question* question) override {
    if (fill_ && filled_ == acknowledged_.size()) return false;
    const uint64_t record = fill_ ? filled_++ : keys_.Next();
    const Key key = EncodeKey(record);
    const std::string_view name(key.data(), key.size());
    question->what = record;
    question->write = fill_ || (workload_.Pick(&random_) == Operation::kUpdate &&
                                issued_[record] == acknowledged_[record]);
    if (question->write) {
      question->least = fill_ ? 0 : ++issued_[record];
      words_ = {"SET", name, values_.Make(record, question->least)};
    } else {
      question->least = acknowledged_[record];
      words_ = {"GET", name};
    }
    redis::AppendRequest(words_, out);
    return true;
  }

  absl::StatusOr<size_t> Split(std::string_view bytes) override { return SplitRespReply(bytes); }

  absl::Status Take(const Question& question, std::string_view reply) override {
    const uint64_t record = question.what;
    if (question.write) {
      if (reply != "+OK\r\n") return Refused(record, reply);
      acknowledged_[record] = static_cast<uint32_t>(question.least);
      return absl::OkStatus();
    }
    const size_t head = reply.find("\r\n");
    if (reply[0] != '$' || reply[1] == '-') return Refused(record, reply);
    const std::string_view value = reply.substr(head + 2, reply.size() - head - 4);
    uint64_t version = 0;
    if (!values_.Matches(record, value)) {
      return absl::DataLossError(
          absl::StrCat("record ", record, " does not hold what was written to it"));
    }
    std::memcpy(&version, value.data(), sizeof(version));
    if (version >= question.least && version <= issued_[record]) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("a read of record ", record, " saw version ", version,
                                            "; it must be within ", question.least, " and ",
                                            issued_[record]));
  }

 private:
  static absl::Status Refused(uint64_t record, std::string_view reply) {
    return absl::InternalError(
        absl::StrCat("the server answered a request of record ", record, " by ", FirstLine(reply)));
  }

  // Every run checks what the fill has written.
  static constexpr uint64_t kValueSeed = 1;

  const WorkloadSpec workload_;
  const InsertCounter counter_;
  KeyChooser keys_;
  Random random_;
  ValueMaker values_;
  std::vector<uint32_t> acknowledged_, issued_;  // versions
  bool fill_ = false;
  uint64_t filled_ = 0;
  std::vector<std::string_view> words_;
};

// One INFO.
class InfoQuestion final : public LoadProtocol {
 public:
  bool Ask(std::string* out, Question*) override {
    if (asked_) return false;
    asked_ = true;
    out->append("INFO rocksdb\r\n");
    return true;
  }
  absl::StatusOr<size_t> Split(std::string_view bytes) override { return SplitRespReply(bytes); }
  absl::Status Take(const Question&, std::string_view reply) override {
    text.assign(reply);
    return absl::OkStatus();
  }
  std::string text;

 private:
  bool asked_ = false;
};

// Until the database has nothing to do in the background.
absl::Status WaitForRest(uint16_t port) {
  constexpr int kQuietPolls = 3;
  const int64_t limit = NowNanos() + 120'000'000'000;
  for (int quiet = 0; quiet < kQuietPolls;) {
    InfoQuestion info;
    LoadClient client(&info, 1);
    PULSE_RETURN_IF_ERROR(client.Connect(port, 1));
    PULSE_RETURN_IF_ERROR(client.Run(1).status());
    const bool rests = info.text.find("running_compactions:0\r") != std::string::npos &&
                       info.text.find("running_flushes:0\r") != std::string::npos;
    quiet = rests ? quiet + 1 : 0;
    if (NowNanos() > limit) {
      return absl::DeadlineExceededError("the loaded database did not come to rest: " + info.text);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return absl::OkStatus();
}

redis::ServeOptions ServerOptions(const nlohmann::json& spec) {
  redis::ServeOptions o;
  o.db = spec.at("dir").get<std::string>();
  o.cache_bytes = spec.at("cache_bytes").get<uint64_t>();
  o.cpus = spec.at("host_cpus").get<std::vector<int>>();
  o.agent_cpus = spec.at("agent_cpus").get<std::vector<int>>();
  o.agent_spin_us = spec.value("agent_spin_us", 0);
  o.offload = spec.value("offload", false);
  o.threads = spec.value("loops", 1);
  return o;
}

// A director's application that answers nothing: every request goes to the host at once, and so no
// command waits for another's reply. What forwarding costs.
class ForwardingResp final : public net::Application {
 public:
  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override {
    return std::make_unique<Forwarding>(connection);
  }

 private:
  // The load sends no empty requests, which would have no reply.
  class Forwarding final : public net::Flow {
   public:
    explicit Forwarding(net::Connection* connection) : connection_(connection) {}
    absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
      return requests_.Next(bytes);
    }
    absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
      return replies_.Next(bytes);
    }
    void OnRequest(net::Ticket ticket, std::string_view bytes) override {
      connection_->Forward(ticket, bytes);
    }
    std::string OnHostLost(net::Ticket, bool) override {
      return ErrorReply(absl::UnavailableError("the host was lost"));
    }
    std::string ErrorReply(const absl::Status& error) override { return redis::ErrorLine(error); }

   private:
    net::Connection* const connection_;
    redis::RequestSplitter requests_;
    redis::ReplySplitter replies_;
  };
};

// What the agent has counted, with the names of the shares.
using AgentCounts = std::vector<std::pair<const char*, uint64_t>>;

AgentCounts CountsOf(const redis::OffloadedResp* agent) {
  if (agent == nullptr) return {};
  const redis::OffloadCounters& c = agent->counters();
  return {{"offloaded_share", c.offloaded},
          {"known_share", c.known},
          {"page_cache_share", c.from_page_cache},
          {"device_share", c.from_device},
          {"dirty_share", c.dirty},
          {"changed_share", c.changed},
          {"order_share", c.order},
          {"no_view_share", c.no_view},
          {"full_share", c.full}};
}

// Of the calling thread: the client.
double ClientSeconds() { return static_cast<double>(ThreadCpuNanos()) / 1e9; }

// "other_us" is what belongs to none of them: the measuring itself, and threads that live for less
// than the meter's interval.
void AddServerCpu(const CpuUse& use, double client_seconds, double seconds, nlohmann::json* out) {
  const auto ops = out->at("ops").get<double>();
  (*out)["host_us"] = use.server_seconds * 1e6 / ops;
  (*out)["agent_us"] = use.agent_seconds * 1e6 / ops;
  (*out)["client_us"] = client_seconds * 1e6 / ops;
  (*out)["other_us"] = (use.host_seconds - use.server_seconds - client_seconds) * 1e6 / ops;
  (*out)["compaction_us"] = use.compaction_seconds * 1e6 / ops;
  (*out)["host_cpus_used"] = use.server_seconds / seconds;
  (*out)["agent_cpus_used"] = use.agent_seconds / seconds;
}

// Of the reads.
void AddShares(const AgentCounts& before, const AgentCounts& after, uint64_t reads,
               nlohmann::json* out) {
  for (size_t i = 0; i < after.size(); ++i) {
    (*out)[after[i].first] =
        static_cast<double>(after[i].second - before[i].second) / static_cast<double>(reads);
  }
}

// As the parent has asked for it.
struct ServeLoad {
  bool fill = false;
  bool uniform = false;
  std::string workload = "C";
  uint64_t records = 0;
  uint64_t used = 0;
  size_t value_bytes = 0;
  uint32_t connections = 0;
  uint32_t depth = 0;
  double warm = 0;
  double seconds = 0;
  uint64_t seed = 0;
  std::vector<int> client_cpus;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ServeLoad, fill, uniform, workload, records, used,
                                                value_bytes, connections, depth, warm, seconds,
                                                seed, client_cpus)

absl::StatusOr<nlohmann::json> FillRecords(const ServeLoad& o, uint16_t port) {
  RecordLoad load(o.records, o.value_bytes, o.seed, RecordLoad::Fill{});
  LoadClient client(&load, o.depth);
  PULSE_RETURN_IF_ERROR(client.Connect(port, o.connections));
  PULSE_ASSIGN_OR_RETURN(const auto filled, client.Run(o.seconds));
  if (filled.writes != o.records) {
    return absl::DeadlineExceededError(absl::StrCat("only ", filled.writes, " of ", o.records,
                                                    " records were written in ", o.seconds, " s"));
  }
  PULSE_RETURN_IF_ERROR(WaitForRest(port));
  return nlohmann::json{{"records", filled.writes}, {"wall_s", filled.seconds}};
}

absl::StatusOr<nlohmann::json> MeasureServer(const ServeLoad& o, uint16_t port,
                                             const redis::OffloadedResp* agent) {
  PULSE_ASSIGN_OR_RETURN(auto workloads, SelectWorkloads({o.workload}));
  WorkloadSpec workload = workloads.front();
  if (o.uniform) workload.distribution = Distribution::kUniform;
  RecordLoad load(workload, o.used, o.records, o.value_bytes, o.seed);
  LoadClient client(&load, o.depth);
  PULSE_RETURN_IF_ERROR(client.Connect(port, o.connections));
  if (const auto warm = client.Run(o.warm); !warm.ok()) return warm.status();
  CpuMeter cpu(CpuMeter::Agent::kThreads);
  const AgentCounts before = CountsOf(agent);
  PULSE_RETURN_IF_ERROR(cpu.Start());
  const double client_began = ClientSeconds();
  const auto run = client.Run(o.seconds);
  const double client_seconds = ClientSeconds() - client_began;
  const auto use = cpu.Stop();
  const AgentCounts after = CountsOf(agent);
  if (!run.ok()) return run.status();
  if (!use.ok()) return use.status();
  if (run->reads == 0) return absl::InternalError("no read was answered in time");
  const examples::LoadFigures figures[] = {{"reads", run->reads, &run->read_nanos},
                                           {"writes", run->writes, &run->write_nanos}};
  nlohmann::json out = examples::FiguresJson(figures, run->seconds);
  AddServerCpu(*use, client_seconds, run->seconds, &out);
  AddShares(before, after, run->reads, &out);
  return out;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunServeJob(const nlohmann::json& spec) {
  Neighbours neighbours;
  PULSE_RETURN_IF_ERROR(neighbours.WorkAsAsked(spec));
  const auto o = spec.get<ServeLoad>();
  const redis::ServeOptions options = ServerOptions(spec);
  const redis::OffloadedResp* agent = nullptr;
  const bool forwards_all = spec.value("forward_all", false);
  const auto make_agent =
      [&agent, forwards_all](
          const redis::OffloadSetup& setup) -> absl::StatusOr<std::shared_ptr<net::Application>> {
    if (forwards_all) return std::make_shared<ForwardingResp>();
    auto made = redis::EmbeddedOffload()(setup);
    if (made.ok()) agent = dynamic_cast<const redis::OffloadedResp*>(made->get());
    return made;
  };
  auto server = redis::Server::Open(options, make_agent);
  if (!server.ok()) return server.status();
  if (options.offload && !forwards_all && agent == nullptr) {
    return absl::InternalError("the server has an agent of another kind than is measured here");
  }
  absl::StatusOr<nlohmann::json> result = absl::UnknownError("the load has not run");
  // A thread of its own: this one has been given the server's CPUs.
  std::thread load([&] {
    pthread_setname_np(pthread_self(), "pulse-load");
    const uint16_t port = (*server)->port();
    const absl::Status placed = SetThreadAffinity(o.client_cpus);
    result = !placed.ok() ? placed : o.fill ? FillRecords(o, port) : MeasureServer(o, port, agent);
  });
  load.join();
  PULSE_RETURN_IF_ERROR((*server)->Stop());
  return result;
}

}  // namespace pulse::bench
