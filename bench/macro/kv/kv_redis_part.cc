// `pulse bench kv --part redis`: Figure 2 of the DPU-KV paper, throughput and latency of a server
// of Redis's protocol over loopback, which is redis-server or `pulse kv`, beside the paper's store
// on packets in memory. The server is a process on the host's core, the client a thread on the
// agent's, which asks in a closed loop by more and more connections, one request on each at a time.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/sibling_program.h"
#include "bench/macro/kv/kv_requests.h"
#include "bench/macro/load_client.h"
#include "bench/macro/program_process.h"
#include "nlohmann/json.hpp"
#include "services/redis/commands/codec.h"

namespace pulse::bench {
namespace {

// The paper compares both at this latency.
constexpr double kWithinUs = 50;
constexpr uint32_t kFillDepth = 256;

// GETs and SETs of the keys of requests; or a SET of each item once.
class KvLoad final : public LoadProtocol {
 public:
  KvLoad(const KvShape& shape, const KvRequests* requests)
      : shape_(shape),
        requests_(requests),
        key_(shape.key_bytes, '\0'),
        value_(shape.value_bytes, 'v') {}

  bool Ask(std::string* out, Question* question) override {
    if (requests_ == nullptr && asked_ == shape_.items) return false;
    const uint64_t i = asked_++;
    question->what = i;
    question->write = requests_ == nullptr || requests_->set(i);
    std::string_view key(key_);
    if (requests_ == nullptr) {
      WriteKey(i, key_.size(), key_.data());
      std::memcpy(value_.data(), &i, std::min<size_t>(8, value_.size()));
    } else {
      key = {requests_->key(i), shape_.key_bytes};
      requests_->WriteValue(i, &value_);
    }
    words_ = {"GET", key};
    if (question->write) words_ = {"SET", key, value_};
    redis::AppendRequest(words_, out);
    return true;
  }
  absl::StatusOr<size_t> Split(std::string_view bytes) override {
    return redis::ReplySplitter().Next(bytes);
  }
  absl::Status Take(const Question& question, std::string_view reply) override {
    if (question.write && reply == "+OK\r\n") return absl::OkStatus();
    const size_t head = reply.find("\r\n") + 2;
    if (!question.write && reply[0] == '$' && reply[1] != '-' &&
        requests_->Fits(question.what, reply.data() + head, reply.size() - head - 2)) {
      return absl::OkStatus();
    }
    return absl::InternalError("a request was answered by " +
                               std::string(reply.substr(0, std::min<size_t>(100, head))));
  }

 private:
  const KvShape& shape_;
  const KvRequests* const requests_;  // null: all items
  std::string key_;
  std::string value_;
  std::vector<std::string_view> words_;
  uint64_t asked_ = 0;
};

// One that is free now: redis-server takes none that the kernel chooses.
absl::StatusOr<uint16_t> FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!fd.valid() || bind(fd.get(), any, size) != 0 || getsockname(fd.get(), any, &size) != 0) {
    return ErrnoError(errno, "looking for", "a free port");
  }
  return ntohs(address.sin_port);
}

// User and kernel time of a process, in seconds.
std::pair<double, double> CpuSecondsOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  file.ignore(std::numeric_limits<std::streamsize>::max(), ')');
  std::string word;
  std::vector<std::string> words;
  while (file >> word) words.push_back(word);
  const auto seconds = [&](size_t at) {  // of proc(5)'s fields, from the third on
    return at < words.size() ? std::stod(words[at]) / static_cast<double>(sysconf(_SC_CLK_TCK))
                             : 0.0;
  };
  return {seconds(11), seconds(12)};
}

absl::StatusOr<uint16_t> StartServer(const KvShape& shape, const std::string& log,
                                     ProgramProcess* server) {
  const uint64_t mib = (shape.items * (shape.key_bytes + shape.value_bytes + 100) >> 20) + 256;
  if (shape.design == "pulse-kv") {
    PULSE_RETURN_IF_ERROR(server->Start({"kv", "--port", "0", "--memory", absl::StrCat(mib, "M")},
                                        shape.host_cpus, log, SiblingProgram("pulse")));
    return server->WaitForPort(" on 127.0.0.1:");
  }
  PULSE_ASSIGN_OR_RETURN(const uint16_t port, FreePort());
  PULSE_RETURN_IF_ERROR(server->Start({"--port", absl::StrCat(port), "--bind", "127.0.0.1",
                                       "--save", "", "--appendonly", "no", "--dir", "/tmp"},
                                      shape.host_cpus, log, "redis-server"));
  if (const absl::Status ready = server->WaitFor("Ready to accept connections"); !ready.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        ready.message(), " (redis-server has to be installed: Debian's package redis-server)"));
  }
  return port;
}

// Adds the least latency, and "within_50us_per_s": the largest rate whose latency is low enough, if
// there is one.
void AddWithin(const std::vector<std::pair<double, double>>& rates, nlohmann::json* result) {
  double best = 0;
  double least_us = std::numeric_limits<double>::infinity();
  for (const auto& [rate, p50_us] : rates) {
    if (p50_us <= kWithinUs) best = std::max(best, rate);
    least_us = std::min(least_us, p50_us);
  }
  if (best > 0) (*result)["within_50us_per_s"] = best;
  (*result)["least_p50_us"] = least_us;
}

absl::StatusOr<nlohmann::json> RunStoreOfThePaper(KvShape shape) {
  shape.design = "cpu";
  shape.engine = "mica";
  PULSE_ASSIGN_OR_RETURN(nlohmann::json result, RunKvDesign(shape));
  std::vector<std::pair<double, double>> rates;
  for (const int load : shape.loads) {
    rates.emplace_back(result.at(absl::StrCat("per_s_", load)).get<double>(),
                       result.at(absl::StrCat("p50_us_", load)).get<double>());
  }
  AddWithin(rates, &result);
  return result;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunKvRedis(const KvShape& shape) {
  if (shape.design == "mica-packets") return RunStoreOfThePaper(shape);
  const std::string log = absl::StrCat("/tmp/pulse-bench-kv-", getpid(), ".log");
  ProgramProcess server;
  const auto port = StartServer(shape, log, &server);
  unlink(log.c_str());
  if (!port.ok()) return port.status();
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(shape.agent_cpus));
  {
    KvLoad fill(shape, nullptr);
    LoadClient client(&fill, kFillDepth);
    PULSE_RETURN_IF_ERROR(client.Connect(*port, 1));
    PULSE_ASSIGN_OR_RETURN(const LoadOutcome filled, client.Run(600));
    if (filled.writes != shape.items) {
      return absl::DeadlineExceededError("the items were not written within ten minutes");
    }
  }
  const KvRequests requests(shape);
  nlohmann::json result;
  std::vector<std::pair<double, double>> rates;
  double peak = 0;
  for (const int connections : shape.connections) {
    KvLoad load(shape, &requests);
    LoadClient client(&load, 1);
    PULSE_RETURN_IF_ERROR(client.Connect(*port, static_cast<uint32_t>(connections)));
    const auto before = CpuSecondsOf(server.pid());
    PULSE_ASSIGN_OR_RETURN(LoadOutcome run, client.Run(shape.seconds));
    const auto after = CpuSecondsOf(server.pid());
    const auto ops = static_cast<double>(run.reads + run.writes);
    run.read_nanos.Merge(run.write_nanos);
    const double rate = ops / run.seconds;
    const double p50_us = static_cast<double>(run.read_nanos.ValueAtPercentile(50)) / 1e3;
    rates.emplace_back(rate, p50_us);
    result[absl::StrCat("per_s_c", connections)] = rate;
    result[absl::StrCat("p50_us_c", connections)] = p50_us;
    result[absl::StrCat("p99_us_c", connections)] =
        static_cast<double>(run.read_nanos.ValueAtPercentile(99)) / 1e3;
    if (rate < peak) continue;
    peak = rate;
    const double user = after.first - before.first;
    const double kernel = after.second - before.second;
    result["host_ns"] = (user + kernel) * 1e9 / ops;
    result["kernel_percent"] = 100 * kernel / std::max(user + kernel, 1e-9);
  }
  result["ops_per_s"] = peak;
  AddWithin(rates, &result);
  return result;
}

}  // namespace pulse::bench
