#include "bench/macro/session.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/agent_socket.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/uri_options.h"
#include "bench/macro/child_runner.h"
#include "bench/macro/revision.h"
#include "fmt/format.h"
#include "rocksdb/version.h"
#include "store/store.h"

namespace pulse::bench {
namespace {

constexpr int kDefaultPairs = 5;
constexpr uint64_t kTinySession = uint64_t{6} << 20;

constexpr uint64_t kMostMemtable = uint64_t{1} << 30;

// At least 1 MiB.
absl::StatusOr<uint64_t> ParseSize(const std::string& option, const std::string& text) {
  const auto size = ParseBytes(text);
  if (!size.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": ", size.status().message()));
  }
  if (*size < (uint64_t{1} << 20)) {
    return absl::InvalidArgumentError(absl::StrCat(option, " ", text, ": give at least 1M"));
  }
  return *size;
}

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::vector<int> Union(const std::vector<int>& a, const std::vector<int>& b) {
  std::set<int> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  return {all.begin(), all.end()};
}

// PulseDB obeys them in every run: who reads the figures must know.
std::string EnvironmentOptions() {
  const char* options = std::getenv("PULSE_OPTIONS");
  return options == nullptr ? "" : options;
}

}  // namespace

absl::StatusOr<uint64_t> SizeOf(const CommonArgs& args, uint64_t full) {
  if (args.size.empty()) return args.tiny ? kTinySession : full;
  return ParseSize("--size", args.size);
}

absl::StatusOr<uint64_t> MemtableOf(const CommonArgs& args) {
  if (args.memtable.empty()) return 0;
  const auto size = ParseSize("--memtable", args.memtable);
  if (size.ok() && *size > kMostMemtable) {
    return absl::InvalidArgumentError("--memtable " + args.memtable + ": give 1G at most");
  }
  return size;
}

absl::Status CheckValueBytes(uint64_t value_bytes, uint64_t least) {
  constexpr uint64_t kMost = uint64_t{1} << 20;
  if (value_bytes >= least && value_bytes <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--value {}: give a size from {} to {} bytes", value_bytes, least, kMost));
}

absl::Status CheckKeys(uint64_t keys, int threads) {
  if (keys >= static_cast<uint64_t>(threads)) return absl::OkStatus();
  return absl::InvalidArgumentError("--keys: give at least one key for each thread");
}

void QuietLostAgents() {
  if (std::getenv("PULSE_LOG") != nullptr) return;
  SetLogLevel(LogLevel::kError);
  setenv("PULSE_LOG", "error", 0);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const BenchArgs& bench,
                                                       uint64_t need_bytes) {
  const CommonArgs& args = bench.common;
  PULSE_ASSIGN_OR_RETURN(auto dir, BenchDir::Open(args.dir, args.allow_tmpfs, need_bytes));
  std::unique_ptr<Session> session(new Session(std::move(dir)));
  session->name_ = bench.benchmark;
  session->args_ = args;
  session->pairs_ = args.pairs > 0 ? args.pairs : (args.tiny ? 1 : kDefaultPairs);
  session->warm_ups_ = args.warm_ups >= 0 ? args.warm_ups : (args.tiny ? 0 : 1);
  PULSE_RETURN_IF_ERROR(session->SetUpCpus());
  if (!args.agent_socket.empty()) {
    if (const auto agent = FindAgent(args.agent_socket); !agent.ok()) return agent.status();
  }
  PULSE_RETURN_IF_ERROR(session->dir_.RemoveAll("run"));
  PULSE_RETURN_IF_ERROR(session->dir_.RemoveAll("pool"));
  session->DescribeMachine();
  session->report_["settings"].update(bench.own);
  return session;
}

// Fills in what the command line left open.
absl::Status ChooseCpus(CommonArgs* args) {
  const std::vector<int> usable = MyCpus();
  if (usable.empty()) return absl::InternalError("reading this process's CPUs failed");
  const size_t hosts = std::min(args->usual_host_cpus, usable.size());
  if (args->host_cpus.empty()) {
    args->host_cpus =
        FormatCpuList({usable.begin(), usable.begin() + static_cast<ptrdiff_t>(hosts)});
  }
  if (args->agent_on_host_cpus) args->agent_cpus = args->host_cpus;
  if (!args->agent_cpus.empty()) return absl::OkStatus();
  args->agent_cpus = absl::StrCat(usable[std::min<size_t>(1, usable.size() - 1)]);
  if (usable.size() == 1) {
    fmt::print(
        stderr,
        "pulse: only CPU {} may be used here: host and agent share it, and there is little to "
        "gain\n",
        usable[0]);
  }
  return absl::OkStatus();
}

absl::Status Session::SetUpCpus() {
  PULSE_RETURN_IF_ERROR(ChooseCpus(&args_));
  struct Field {
    const char* option;
    std::string* text;
    std::vector<int>* cpus;
  };
  const Field fields[] = {{"host", &args_.host_cpus, &host_cpus_},
                          {"agent", &args_.agent_cpus, &agent_cpus_}};
  for (const Field& field : fields) {
    auto cpus = ParseCpuList(*field.text);
    if (!cpus.ok()) return cpus.status();
    if (const absl::Status usable = CheckCpus(*cpus); !usable.ok()) {
      // A tiny run shows that the program works, so it takes any processor.
      if (!args_.tiny || !CheckCpus({0}).ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("CPU of the ", field.option, ": ", usable.message()));
      }
      fmt::print(stderr, "pulse: {} runs on CPU 0: {}\n", field.option,
                 std::string(usable.message()));
      *cpus = {0};
      *field.text = "0";
    }
    *field.cpus = *std::move(cpus);
  }
  both_cpus_ = Union(host_cpus_, agent_cpus_);
  return absl::OkStatus();
}

void Session::DescribeMachine() {
  utsname name = {};
  uname(&name);
  report_["benchmark"] = name_;
  report_["pulse_version"] = PULSE_VERSION;
  report_["revision"] = SourceRevision();
  report_["machine"] = {{"cpu", CpuModel()},
                        {"cpus", MyCpus().size()},
                        {"memory_bytes", static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                             static_cast<uint64_t>(sysconf(_SC_PAGESIZE))},
                        {"kernel", std::string(name.release)},
                        {"rocksdb", rocksdb::GetRocksVersionAsString()},
                        {"file_system", dir_.file_system()}};
  report_["settings"] = {{"host_cpus", args_.host_cpus},
                         {"agent_cpus", args_.agent_cpus},
                         {"agent_socket", args_.agent_socket},
                         {"uri_options", args_.uri_options},
                         {"environment_options", EnvironmentOptions()},
                         {"pairs", pairs_},
                         {"warm_ups", warm_ups_},
                         {"seed", args_.seed},
                         {"tiny", args_.tiny}};
}

PulseTarget Session::pulse_target() const {
  PulseTarget target;
  target.agent_cpus = args_.agent_cpus;
  target.agent_socket = args_.agent_socket;
  target.extra = args_.uri_options;
  return target;
}

void Session::Say(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

absl::StatusOr<nlohmann::json> Session::Step(
    const std::string& what, const nlohmann::json& spec, const std::vector<int>& cpus,
    const std::function<std::string(const nlohmann::json&)>& describe) {
  ChildOptions options;
  options.cpus = cpus;
  options.timeout_seconds = args_.timeout_seconds;
  if (progress_ != nullptr) progress_->Begin(what);
  options.tick = [this] {
    if (progress_ != nullptr) progress_->Tick();
    if (tick_) tick_();
  };
  auto result = RunChild(spec, options);
  // A job that served nothing has figures that are no numbers, which JSON writes as null: it lacks
  // them.
  if (result.ok() && result->is_object()) {
    for (auto it = result->begin(); it != result->end();) {
      it = it->is_null() ? result->erase(it) : std::next(it);
    }
  }
  if (progress_ != nullptr) progress_->End(result.ok() ? describe(*result) : "failed");
  return result;
}

absl::StatusOr<nlohmann::json> Session::Prepared(
    const std::string& name, const std::string& what, const nlohmann::json& spec,
    const std::function<std::string(const nlohmann::json&)>& describe,
    const std::vector<int>& cpus) {
  const std::string note = dir_.Sub(name + ".json");
  if (std::ifstream in(note); in) {
    nlohmann::json kept = nlohmann::json::parse(in, nullptr, false);
    if (kept.is_object() && kept.value("load", nlohmann::json()) == spec && kept.contains("made")) {
      return kept["made"];
    }
  }
  PULSE_RETURN_IF_ERROR(dir_.RemoveAll(name));
  auto made = Step(what, spec, cpus, describe);
  if (!made.ok()) return made;
  std::ofstream out(note);
  out << nlohmann::json{{"load", spec}, {"made", *made}}.dump(2) << '\n';
  return made;
}

absl::Status Session::Verify(const std::string& label, const std::string& name,
                             const DbShape& shape, uint64_t value_bytes, const Variant& variant,
                             bool keys_only, std::optional<Contents>* first) {
  ChildOptions options;
  options.timeout_seconds = args_.timeout_seconds;
  if (progress_ != nullptr) {
    progress_->Begin(label + ", reading back");
    options.tick = [this] { progress_->Tick(); };
  }
  PULSE_ASSIGN_OR_RETURN(const auto seen,
                         RunChild({{"job", "verify"},
                                   {"dir", dir_.Sub(name)},
                                   {"shape", shape},
                                   {"pool_uri", variant.pool.empty() ? "" : variant.uri},
                                   {"value_bytes", value_bytes},
                                   {"seed", args_.seed}},
                                  options));
  const Contents left{seen.at("entries").get<uint64_t>(), seen.at("keys").get<std::string>(),
                      seen.at("contents").get<std::string>()};
  if (!*first) *first = left;
  const bool same = keys_only ? left.keys == (*first)->keys : left.sum == (*first)->sum;
  if (same && left.entries == (*first)->entries) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "wrong contents after the run: {} entries with checksum {}, where the first variant left {} "
      "with {}",
      left.entries, left.sum, (*first)->entries, (*first)->sum));
}

std::string Session::pool_path() const { return dir_.Sub("pool"); }

absl::Status Session::ReadyPool(uint64_t bytes) {
  if (!pool_made_) {
    store::CreateOptions options;
    options.size = bytes;
    // Of 64 MiB tables little is lost in the last of several.
    options.segment_bytes = args_.tiny ? uint64_t{256} << 10 : uint64_t{4} << 20;
    options.force = true;
    Say(fmt::format("Making a pool of {} MiB ...\n", bytes >> 20));
    PULSE_RETURN_IF_ERROR(store::Create(pool_path(), options));
    pool_made_ = true;
  }
  PULSE_ASSIGN_OR_RETURN(auto opened, store::Store::Open(pool_path()));
  for (const std::string& name : opened->ListDirectories()) {
    PULSE_RETURN_IF_ERROR(opened->ClearDirectory(name));
  }
  return opened->Commit();
}

absl::Status Session::DropPool() {
  if (!pool_made_ || args_.keep) return absl::OkStatus();
  pool_made_ = false;
  return dir_.RemoveAll("pool");
}

void Session::CoolDown() {
  const std::string how = DropPageCache(dir_.Sub("run"));
  if (how != "drop_caches" && !report_["settings"].contains("page_cache")) {
    fmt::print(stderr,
               "pulse: /proc/sys/vm/drop_caches may not be written here (it takes root): the page "
               "cache is emptied file by file instead, which the kernel may ignore\n");
  }
  report_["settings"]["page_cache"] = how;
}

absl::StatusOr<Runs> Session::RunRounds(const std::vector<Variant>& variants,
                                        const std::string& label, const RunOne& run) {
  Runs runs;
  for (int round = 0; round < rounds(); ++round) {
    const bool recorded = round >= warm_ups_;
    const int pair = round - warm_ups_ + 1;
    const std::string which = recorded ? fmt::format("pair {}/{}", pair, pairs_) : "warm-up";
    std::vector<nlohmann::json> results(variants.size());
    for (size_t i = 0; i < variants.size(); ++i) {
      const size_t turn = InTurn(round, i, variants.size());
      const Variant& variant = variants[turn];
      auto result = run(variant, fmt::format("{}, {}, {}", label, which, variant.name), round == 0);
      if (!result.ok()) {
        return absl::Status(
            result.status().code(),
            absl::StrCat(label, ", ", which, ", ", variant.name, ": ", result.status().message()));
      }
      if (!recorded) continue;
      runs.Add(variant.name, pair, *result);
      (*result)["variant"] = variant.name;
      (*result)["pair"] = pair;
      (*result)["turn"] = i + 1;
      results[turn] = *std::move(result);
    }
    if (!recorded) continue;
    for (nlohmann::json& result : results) runs.raw.push_back(std::move(result));
  }
  return runs;
}

std::string Session::json_file() const {
  return args_.json_file.empty() ? dir_.Sub(name_ + ".json") : args_.json_file;
}

absl::Status Session::WriteReport() {
  PULSE_RETURN_IF_ERROR(DropPool());
  const std::string file = json_file();
  std::ofstream out(file);
  out << report_.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) {
    return absl::UnavailableError(
        absl::StrCat("writing the report to ", file, " failed; choose another --json file"));
  }
  fmt::print("JSON: {}\n", file);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Variant>> PaperVariants(const Session& session,
                                                   const std::vector<std::string>& names) {
  std::vector<Variant> all = StockVariants(session.host_cpus());
  all.push_back(StockOnBothProcessors(session.both_cpus()).front());
  all.push_back(PulseVariant(session.pulse_target(), session.host_cpus()));
  return Select(std::move(all), names.empty()
                                    ? std::vector<std::string>{kStockDefault, kStock2Cpu, kPulse}
                                    : names);
}

std::string Legend(const Session& session, const std::vector<Variant>& variants) {
  const CommonArgs& args = session.args();
  std::string text = fmt::format("Host on CPU {}, ", args.host_cpus);
  if (!args.agent_socket.empty()) {
    absl::StrAppend(&text, "agent behind ", args.agent_socket, " (its cores stand for the DPU)");
  } else if (session.both_cpus() == session.host_cpus()) {
    absl::StrAppend(&text, "agent on CPU ", args.agent_cpus,
                    " among them: PulseDB has no core more than stock");
  } else {
    absl::StrAppend(&text, "agent on CPU ", args.agent_cpus, " (its core stands for the DPU)");
  }
  absl::StrAppend(&text, ". RocksDB ", rocksdb::GetRocksVersionAsString(), ", ",
                  session.dir().file_system(), ", seed ", args.seed, ".\n");
  if (const std::string options = EnvironmentOptions(); !options.empty()) {
    absl::StrAppend(&text, "PULSE_OPTIONS is set and holds for PulseDB: ", options, "\n");
  }
  if (args.tiny)
    absl::StrAppend(&text, "A tiny run: it shows that all works; its figures mean nothing.\n");
  size_t width = 0;
  for (const Variant& o : variants) width = std::max(width, o.name.size());
  for (const Variant& o : variants) {
    absl::StrAppend(&text, fmt::format("  {:<{}}  {}; CPU {}\n", o.name, width, o.meaning,
                                       FormatCpuList(o.cpus)));
  }
  return text;
}

nlohmann::json Section(const Runs& runs, const std::vector<Variant>& variants) {
  nlohmann::json spreads = nlohmann::json::object();
  for (const Variant& o : variants) {
    for (const std::string& metric : runs.Metrics(o.name)) {
      spreads[o.name][metric] = ToJson(runs.Of(o.name, metric));
    }
  }
  return {{"variants", std::move(spreads)}, {"runs", runs.raw}};
}

}  // namespace pulse::bench
