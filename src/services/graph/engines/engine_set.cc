#include "services/graph/engines/engine_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "mover/thread_copy_engine.h"

namespace pulse::graph::engines {
namespace {

constexpr std::pair<EngineKind, const char*> kNames[] = {
    {EngineKind::kAuto, "auto"},       {EngineKind::kInline, "inline"},
    {EngineKind::kThreads, "threads"}, {EngineKind::kAgent, "agent"},
    {EngineKind::kDsa, "dsa"},         {EngineKind::kSim, "sim"}};

const char* NameOf(EngineKind kind) {
  for (const auto& [one, name] : kNames) {
    if (one == kind) return name;
  }
  return "";
}

EngineKind KindOf(const std::string& name) {
  for (const auto& [kind, one] : kNames) {
    if (name == one) return kind;
  }
  return EngineKind::kInline;
}

constexpr char kCpuOption[] = "CPUs of an engine (--engine-cpus, engine_cpus)";

// Those who run on them later take others where these are not to be had.
absl::StatusOr<std::vector<int>> ReadEngineCpus(const std::string& text) {
  auto cpus = ParseCpuList(text);
  const absl::Status status = cpus.ok() ? CheckCpus(*cpus) : cpus.status();
  if (status.ok()) return cpus;
  return absl::InvalidArgumentError(
      absl::StrCat(kCpuOption, " \"", text, "\": ", status.message()));
}

// What is measured is forgotten by half when it comes to so many bytes: engines change.
constexpr double kMemory = 4e9;

}  // namespace

std::string EngineKindNames() {
  std::string names;
  for (const auto& [kind, name] : kNames) absl::StrAppend(&names, names.empty() ? "" : "|", name);
  return names;
}

absl::StatusOr<EngineKind> ParseEngineKind(const std::string& name) {
  for (const auto& [kind, one] : kNames) {
    if (name == one) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no copy engine ", name, "; there are ", EngineKindNames()));
}

absl::StatusOr<std::unique_ptr<EngineSet>> EngineSet::Open(EngineSetOptions options) {
  std::unique_ptr<EngineSet> set(new EngineSet(std::move(options)));
  PULSE_RETURN_IF_ERROR(set->Prepare());
  return set;
}

absl::Status EngineSet::Prepare() {
  const EngineKind kind = options_.kind;
  if (!options_.agent_socket.empty() && kind != EngineKind::kAgent && kind != EngineKind::kAuto) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an agent's socket is for the engines agent and auto, and not for ", NameOf(kind)));
  }
  std::vector<int> cpus;
  if (!options_.cpus.empty()) {
    const bool thread = kind == EngineKind::kAgent && options_.agent_socket.empty();
    if (kind != EngineKind::kThreads && !thread) {
      return absl::InvalidArgumentError(absl::StrCat(
          kCpuOption, " are for threads, and for agent without a socket: leave them out for ",
          NameOf(kind)));
    }
    PULSE_ASSIGN_OR_RETURN(cpus, ReadEngineCpus(options_.cpus));
  }
  if (kind == EngineKind::kAgent && options_.agent_socket.empty()) {
    merger_ = std::make_unique<ThreadMerger>(std::move(cpus));
    return absl::OkStatus();
  }
  if (!options_.agent_socket.empty()) {
    auto merger = std::make_unique<AgentMerger>(
        AgentMergerOptions{options_.agent_socket, options_.agent_silence_ms});
    const absl::Status connected = merger->Connect();
    if (!connected.ok() && kind == EngineKind::kAgent) return connected;
    if (!connected.ok()) {
      left_out_ = absl::StrCat("; agent is tried when it is there: ", connected.message());
      // Once: also for who never asks for Describe.
      Log(LogLevel::kWarn,
          absl::StrCat("graph: the engine auto goes on without the agent that was named, and tries "
                       "it again: ",
                       connected.message()));
    }
    merger_ = std::move(merger);
  }
  if (kind == EngineKind::kDsa || kind == EngineKind::kAuto) {
    const auto device = OpenDsaDevice(options_.dsa);
    if (!device.ok() && kind == EngineKind::kDsa) return device.status();
    has_dsa_ = device.ok();
    if (!device.ok()) absl::StrAppend(&left_out_, "; no dsa: ", device.status().message());
    return absl::OkStatus();
  }
  // The others' options are checked by making one.
  return MakeEngine(kind).status();
}

absl::StatusOr<std::unique_ptr<CopyEngine>> EngineSet::MakeEngine(EngineKind kind) {
  switch (kind) {
    case EngineKind::kThreads:
      return CreateThreadCopyEngine({.threads = options_.threads, .cpus = options_.cpus});
    case EngineKind::kSim:
      return vdpu::CreateSimCopyEngine(options_.sim);
    case EngineKind::kDsa: {
      PULSE_ASSIGN_OR_RETURN(DsaDevice device, OpenDsaDevice(options_.dsa));
      return CreateDsaCopyEngine(std::move(device.portal), device.options);
    }
    default:
      return CreateInlineCopyEngine({});
  }
}

std::vector<EngineKind> EngineSet::Candidates(const EngineWork& work) const {
  std::vector<EngineKind> out = {EngineKind::kInline};
  if (work.bytes < kLeastBytes) return out;
  if (work.kind == WorkKind::kMerge && merger_ != nullptr && work.in_files) {
    out.push_back(EngineKind::kAgent);
  }
  if (has_dsa_) out.push_back(EngineKind::kDsa);
  return out;
}

EngineKind EngineSet::Cheapest(const EngineWork& work) {
  const std::lock_guard lock(mu_);
  std::vector<std::pair<EngineKind, const Cost*>> known;
  double fastest = -1;
  for (const EngineKind kind : Candidates(work)) {
    Cost& cost = costs_[{work.kind, kind}];
    if (cost.rests > 0) {
      --cost.rests;
      continue;
    }
    if (!cost.tried && work.bytes >= kLeastBytes) return kind;
    known.emplace_back(kind, &cost);
    if (cost.bytes > 0) {
      const double nanos = cost.nanos / cost.bytes;
      if (fastest < 0 || nanos < fastest) fastest = nanos;
    }
  }
  EngineKind best = EngineKind::kInline;
  double least = -1;
  for (const auto& [kind, cost] : known) {
    if (cost->bytes <= 0 || cost->nanos / cost->bytes > kMostSlower * fastest) continue;
    const double cpu = cost->cpu_nanos / cost->bytes;
    if (least < 0 || cpu < least) {
      best = kind;
      least = cpu;
    }
  }
  return best;
}

absl::StatusOr<EngineChoice> EngineSet::Choose(const EngineWork& work) {
  EngineKind kind = options_.kind == EngineKind::kAuto ? Cheapest(work) : options_.kind;
  EngineChoice choice;
  choice.name = NameOf(kind);
  if (kind == EngineKind::kAgent) {
    // The order of a flush is found in this process's memory, and so are its properties: its copies
    // are done where they are.
    if (work.kind == WorkKind::kMerge) {
      choice.merger = merger_.get();
    } else {
      choice.name = NameOf(EngineKind::kInline);
    }
    kind = EngineKind::kInline;
  }
  absl::StatusOr<std::unique_ptr<CopyEngine>> engine = MakeEngine(kind);
  if (!engine.ok()) {
    // The device was there when the set was opened.
    Log(LogLevel::kWarn, absl::StrCat("graph: no engine ", choice.name,
                                      " any more, copies are inline: ", engine.status().message()));
    EngineOutcome outcome;
    outcome.name = choice.name;
    outcome.fell_back = engine.status();
    Report(work, outcome);
    choice.name = NameOf(EngineKind::kInline);
    engine = CreateInlineCopyEngine({});
  }
  PULSE_ASSIGN_OR_RETURN(choice.engine, std::move(engine));
  return choice;
}

void EngineSet::Report(const EngineWork& work, const EngineOutcome& outcome) {
  const std::lock_guard lock(mu_);
  EngineUse& use = uses_[outcome.name];
  Cost& cost = costs_[{work.kind, KindOf(outcome.name)}];
  if (!outcome.fell_back.ok()) {
    ++use.fell_back;
    use.last_failure = std::string(outcome.fell_back.message());
    cost.rests = kRest;
    return;
  }
  ++(work.kind == WorkKind::kMerge ? use.merges : use.flushes);
  use.bytes += work.bytes;
  use.nanos += outcome.nanos;
  use.cpu_nanos += outcome.cpu_nanos;
  // Small ones tell nothing of the rate.
  if (work.bytes < kLeastBytes) return;
  cost.tried = true;
  cost.bytes += static_cast<double>(work.bytes);
  cost.nanos += static_cast<double>(outcome.nanos);
  cost.cpu_nanos += static_cast<double>(outcome.cpu_nanos);
  if (cost.bytes > kMemory) {
    cost.bytes /= 2;
    cost.nanos /= 2;
    cost.cpu_nanos /= 2;
  }
}

std::string EngineSet::Describe() const {
  switch (options_.kind) {
    case EngineKind::kAuto: {
      std::string others;
      if (merger_ != nullptr) absl::StrAppend(&others, ", agent at ", options_.agent_socket);
      if (has_dsa_) absl::StrAppend(&others, ", dsa");
      return absl::StrCat("auto (inline", others,
                          "): least CPU of this process for a byte, of those at most ", kMostSlower,
                          " times as slow as the fastest; below ", kLeastBytes >> 20, " MiB inline",
                          left_out_);
    }
    case EngineKind::kInline:
      return "inline: the maintenance thread copies";
    case EngineKind::kThreads:
      return absl::StrCat("threads: ", options_.threads,
                          options_.cpus.empty() ? "" : absl::StrCat(" on CPUs ", options_.cpus));
    case EngineKind::kAgent:
      return options_.agent_socket.empty()
                 ? absl::StrCat(
                       "agent: compactions by a thread of this process",
                       options_.cpus.empty() ? "" : absl::StrCat(" on CPUs ", options_.cpus))
                 : absl::StrCat("agent: compactions by ", options_.agent_socket);
    case EngineKind::kDsa:
      return "dsa: Intel's data streaming accelerator";
    case EngineKind::kSim:
      return absl::StrFormat("sim: a simulated accelerator (a stand-in, %g GB/s), not hardware",
                             options_.sim.bandwidth_gb_s);
  }
  return "";
}

std::map<std::string, EngineUse> EngineSet::uses() const {
  const std::lock_guard lock(mu_);
  return uses_;
}

std::string EngineSet::Summary() const {
  std::string out;
  for (const auto& [name, use] : uses()) {
    absl::StrAppend(
        &out, out.empty() ? "" : "; ", name == "sim" ? "sim (a stand-in)" : name, ": ",
        absl::StrFormat("%d flushes, %d compactions, %.1f MB, %.2f s, %.2f s of this process's "
                        "CPU",
                        use.flushes, use.merges, static_cast<double>(use.bytes) * 1e-6,
                        static_cast<double>(use.nanos) * 1e-9,
                        static_cast<double>(use.cpu_nanos) * 1e-9));
    if (use.fell_back > 0) {
      absl::StrAppend(&out, ", ", use.fell_back, " done here instead (", use.last_failure, ")");
    }
  }
  return out;
}

}  // namespace pulse::graph::engines
