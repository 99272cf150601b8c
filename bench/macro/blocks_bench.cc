// `pulse bench blocks`: random block I/O over the network, by the DDS paper's ways: on the host
// with files of the operating system, by the file library, offloaded. DDS section 8.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/sibling_program.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/program_process.h"
#include "bench/macro/soak_agent.h"
#include "store/store.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kBlocksSize = uint64_t{512} << 20;
constexpr char kOs[] = "os-io_uring";

bool HasDirector(const std::string& name) {
  return name == "forwarded" || name == "offloaded" || name == "offloaded-copying";
}

class BlocksBench {
 public:
  BlocksBench(Session* session, const BenchArgs& args, uint64_t bytes)
      : session_(session), args_(args), bytes_(bytes), store_(session->dir().Sub("store")) {}

  // Both forms of the file, with every block stamped.
  absl::Status Prepare() {
    PULSE_RETURN_IF_ERROR(session_->dir().Remove("plain"));
    PULSE_RETURN_IF_ERROR(MakeStore(*session_, bytes_));
    if (mkdir(session_->dir().Sub("plain").c_str(), 0755) != 0) {
      return ErrnoError(errno, "creating", session_->dir().Sub("plain"));
    }
    for (const char* name : {"library", kOs}) {
      nlohmann::json spec = Spec();
      spec["fill"] = true;
      PULSE_RETURN_IF_ERROR(
          Run(name, absl::StrCat("writing the file, ", name), std::move(spec)).status());
    }
    return absl::OkStatus();
  }

  nlohmann::json Spec() {
    nlohmann::json spec = args_.own;
    spec["job"] = "blocks-load";
    spec["seed"] = args_.common.seed + static_cast<uint64_t>(++runs_);
    spec["neighbours"] = 0;
    spec["rate"] = 0;
    return spec;
  }

  absl::StatusOr<nlohmann::json> Run(const std::string& name, const std::string& label,
                                     nlohmann::json spec) {
    std::unique_ptr<SoakAgent> agent;
    ProgramProcess host;
    const auto port = Start(name, &agent, &host);
    if (!port.ok()) return port.status();
    spec["port"] = *port;
    spec["host_pid"] = host.pid();
    spec["agent_pid"] = agent == nullptr ? 0 : agent->pid();
    return session_->Step(label, spec, session_->both_cpus(), OpsAndHostCpu);
  }

 private:
  absl::StatusOr<uint16_t> Start(const std::string& name, std::unique_ptr<SoakAgent>* agent,
                                 ProgramProcess* host) {
    const BenchDir& dir = session_->dir();
    const std::string host_socket = dir.Sub("host.sock");
    std::vector<std::string> words = {"serve", "--size", absl::StrCat(bytes_)};
    if (name == kOs || name == "os-threads") {
      words.insert(words.end(), {"--directory", dir.Sub("plain"), "--engine",
                                 name == kOs ? "io_uring" : "threads"});
    } else {
      std::vector<std::string> more = {"--store", store_, "--tasks", "0"};
      if (HasDirector(name)) {
        const char* object =
            name == "forwarded" ? "pulse-blocks-forward.so" : "pulse-blocks-offload.so";
        more.insert(more.end(), {"--offload", SiblingProgram(object), "--serve", "0",
                                 "--serve-host", "unix:" + host_socket});
      }
      if (name == "offloaded-copying") more.push_back("--offload-copying");
      PULSE_RETURN_IF_ERROR(dir.Remove("agent.log"));
      PULSE_ASSIGN_OR_RETURN(*agent, StartAgent(*session_, std::move(more)));
      words.insert(words.end(), {"--agent", (*agent)->socket()});
    }
    if (HasDirector(name)) words.insert(words.end(), {"--socket", host_socket, "--ordered"});
    PULSE_RETURN_IF_ERROR(host->Start(words, session_->host_cpus(), dir.Sub("host.log"),
                                      SiblingProgram("pulse-blocks")));
    if (!HasDirector(name)) return host->WaitForPort("serving at 127.0.0.1:");
    PULSE_RETURN_IF_ERROR(host->WaitFor("serving at "));
    return PortInLog(dir.Sub("agent.log"), "(port ");
  }

  Session* const session_;
  const BenchArgs& args_;
  const uint64_t bytes_;
  const std::string store_;
  int runs_ = 0;
};

}  // namespace

absl::Status RunBlocksBench(BenchArgs args) {
  PULSE_ASSIGN_OR_RETURN(const auto size,
                         SizeOf(args.common, args.common.tiny ? uint64_t{8} << 20 : kBlocksSize));
  const uint64_t bytes = std::max(size / kStoreSegment, uint64_t{1}) * kStoreSegment;
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, bytes * 5 / 2 + (uint64_t{128} << 20)));
  Session& s = *session;
  BlocksBench bench(&s, args, bytes);
  const nlohmann::json& data = DataOf("blocks");
  PULSE_ASSIGN_OR_RETURN(const auto variants, Select(VariantsOf(data, s), args.common.variants));
  const std::string only = args.Get<std::string>("part");
  auto parts = PartsOf(
      data, only == "all" ? std::vector<std::string>{} : std::vector<std::string>{only}, variants);
  if (!parts.ok()) return parts.status();
  s.Say(Legend(s, variants));
  s.Say("  The client may use both CPUs. Every block that is read is checked.\n");
  s.ExpectSteps(2 + RunsOf(*parts) * s.rounds());
  PULSE_RETURN_IF_ERROR(bench.Prepare());
  double rates[] = {args.Get<double>("rate"), args.Get<double>("rate")};  // idle host, busy host
  nlohmann::json& settings = s.report()["settings"];
  settings["bytes"] = bytes;
  const auto run = [&](const Part& part, const Variant& o,
                       const std::string& label) -> absl::StatusOr<nlohmann::json> {
    nlohmann::json spec = bench.Spec();
    spec["reads"] = part.data.at("reads");
    const bool busy = part.data.value("busy", false);
    if (part.data.value("timed", false)) {
      if (rates[busy] == 0) return absl::InvalidArgumentError("give a --rate, or run all parts");
      spec["rate"] = rates[busy];
    }
    if (busy) spec.update(NeighboursOf(args, s));
    return bench.Run(o.name, label, std::move(spec));
  };
  // Half of what the baseline can: no variant is overloaded.
  const auto done = [&](const Part& part, const RunSet& runs) {
    const bool busy = part.data.value("busy", false);
    double& rate = rates[busy];
    if (rate == 0 && part.data.at("reads") == 1) {
      rate = runs.Has(kOs) ? runs.Of(kOs, "ops_per_s").median / 2 : 1000;
    }
    settings[busy ? "busy_rate" : "rate"] = rate;
  };
  PULSE_RETURN_IF_ERROR(RunParts(&s, data, *parts, run, done));
  return RemoveUnlessKept(s, {"store", "plain"});
}

}  // namespace pulse::bench
