// How long a store takes to open after a kill, and how much of it is resident then: 1 GB logged
// since it was closed, with and without flushes meanwhile. Who logs, and who opens, are processes
// of their own.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/child_runner.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/graph_bench.h"
#include "fmt/format.h"
#include "services/graph/core/store.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kUnlimited = uint64_t{8} << 30;
constexpr size_t kTextBytes = 200;

// As the store has it by default; without flushes nothing bounds its memory.
graph::StoreOptions ReopenOptions(bool flushes) {
  graph::StoreOptions options;
  options.sync = false;  // the log is measured, not the device
  if (!flushes) {
    options.flush_chunks = 0;
    options.memory_limit = kUnlimited;
  }
  return options;
}

absl::Status LogSome(graph::GraphStore* store, const std::vector<graph::NodeId>& nodes,
                     std::mt19937_64* random) {
  PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
  PULSE_ASSIGN_OR_RETURN(const graph::Token type, transaction->AddTypeName("T"));
  PULSE_ASSIGN_OR_RETURN(const graph::Token key, transaction->AddKeyName("text"));
  const cypher::Properties properties = {
      {key, cypher::Value::String(std::string(kTextBytes, 'x'))}};
  for (int i = 0; i < 10; ++i) {
    const uint64_t r = (*random)();
    PULSE_RETURN_IF_ERROR(transaction
                              ->CreateEdge(nodes[(r >> 32) % nodes.size()],
                                           nodes[(r & 0xFFFFFFFF) % nodes.size()], type, properties)
                              .status());
  }
  return transaction->Commit();
}

uint64_t MostResident() {
  std::string line;
  for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * strtoull(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunGraphLogJob(const nlohmann::json& spec) {
  const auto dir = spec.at("dir").get<std::string>(), done = spec.at("done").get<std::string>();
  const auto bytes = spec.at("bytes").get<uint64_t>();
  const graph::StoreOptions options = ReopenOptions(spec.at("flushes").get<bool>());
  std::vector<graph::NodeId> nodes;
  {
    PULSE_ASSIGN_OR_RETURN(const auto store, graph::GraphStore::Open(dir, options));
    PULSE_ASSIGN_OR_RETURN(const auto transaction, store->Begin());
    for (int i = 0; i < 100'000; ++i) {
      PULSE_ASSIGN_OR_RETURN(nodes.emplace_back(), transaction->CreateNode({}, {}));
    }
    PULSE_RETURN_IF_ERROR(transaction->Commit());
    PULSE_RETURN_IF_ERROR(store->Close());
  }
  PULSE_ASSIGN_OR_RETURN(const auto store, graph::GraphStore::Open(dir, options));
  std::mt19937_64 random(spec.at("seed").get<uint64_t>());
  while (store->stats().bytes_logged < bytes) {
    for (int i = 0; i < 100; ++i) PULSE_RETURN_IF_ERROR(LogSome(store.get(), nodes, &random));
  }
  const graph::StoreStats stats = store->stats();
  std::ofstream(done + ".new") << nlohmann::json{{"relationships", stats.relationships},
                                                 {"logged_bytes", stats.bytes_logged}};
  std::filesystem::rename(done + ".new", done);
  while (true) pause();  // until it is killed
}

absl::StatusOr<nlohmann::json> RunGraphOpenJob(const nlohmann::json& spec) {
  const Stretch stretch;
  PULSE_ASSIGN_OR_RETURN(const auto store,
                         graph::GraphStore::Open(spec.at("dir").get<std::string>(),
                                                 ReopenOptions(spec.at("flushes").get<bool>())));
  const double seconds = stretch.seconds(), cpu = stretch.cpu_seconds();
  return nlohmann::json{{"seconds", seconds},
                        {"cpu_s", cpu},
                        {"resident_bytes", MostResident()},
                        {"relationships", store->stats().relationships}};
}

absl::Status RunReopenPart(GraphBench* bench) {
  const uint64_t bytes = bench->tiny ? 10'000'000 : 1'000'000'000;
  const struct {
    const char *key, *what;
    bool logged_with, opened_with;  // flushes
  } kRows[] = {{"on", "flushing on", true, true},
               {"off", "flushing off", false, false},
               {"limit", "nothing flushed, opened with flushing on", false, true}};
  const std::string logged = bench->dir + "/graph-logged", copy = bench->dir + "/graph-reopened";
  const std::string done = bench->dir + "/graph-logged.json";
  TextTable table({"", "s", "least", "most", "CPU s", "resident, MiB", "limit, MiB"});
  nlohmann::json rows = nlohmann::json::array();
  std::error_code ec;
  {
    Progress progress(3);
    nlohmann::json facts;
    bool there_with = false;
    for (const auto& [key, what, logged_with, opened_with] : kRows) {
      progress.Begin(what);
      ChildOptions open, log;
      open.tick = log.tick = [&] { progress.Tick(); };
      log.tick_millis = 20;
      log.enough = [&] { return std::filesystem::exists(done); };
      if (facts.is_null() || there_with != logged_with) {
        std::filesystem::remove_all(logged, ec);
        std::filesystem::remove(done, ec);
        const auto killed = RunChild({{"job", "graph-log"},
                                      {"dir", logged},
                                      {"done", done},
                                      {"bytes", bytes},
                                      {"seed", bench->seed},
                                      {"flushes", logged_with}},
                                     log);
        if (!absl::IsAborted(killed.status())) {
          return killed.ok() ? absl::InternalError("who logs has ended") : killed.status();
        }
        std::ifstream(done) >> facts;
        there_with = logged_with;
      }
      std::vector<double> seconds, cpu, resident;
      for (int round = 0; round < bench->rounds; ++round) {
        std::filesystem::remove_all(copy, ec);
        std::filesystem::copy(logged, copy, std::filesystem::copy_options::recursive, ec);
        if (ec) return ErrnoError(ec.value(), "copying", logged);
        PULSE_ASSIGN_OR_RETURN(
            const auto opened,
            RunChild({{"job", "graph-open"}, {"dir", copy}, {"flushes", opened_with}}, open));
        if (opened.at("relationships") != facts.at("relationships")) {
          return absl::InternalError("a killed store has lost relationships");
        }
        seconds.push_back(opened.at("seconds").get<double>());
        cpu.push_back(opened.at("cpu_s").get<double>());
        resident.push_back(opened.at("resident_bytes").get<double>());
      }
      const double limit = static_cast<double>(ReopenOptions(opened_with).memory_limit);
      const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
      const auto [smallest, largest] = std::minmax_element(resident.begin(), resident.end());
      table.AddRow({what, fmt::format("{:.2f}", MedianOf(seconds)), fmt::format("{:.2f}", *least),
                    fmt::format("{:.2f}", *most), fmt::format("{:.2f}", MedianOf(cpu)),
                    fmt::format("{:.0f}", *largest / 1048576),
                    fmt::format("{:.0f}", limit / 1048576)});
      nlohmann::json row = {{"key", key},
                            {"what", what},
                            {"seconds", MedianOf(seconds)},
                            {"seconds_least", *least},
                            {"seconds_most", *most},
                            {"cpu_s", MedianOf(cpu)},
                            {"resident_bytes", MedianOf(resident)},
                            {"resident_bytes_least", *smallest},
                            {"resident_bytes_most", *largest},
                            {"limit_bytes", limit},
                            {"count", seconds.size()}};
      row.update(facts);
      rows.push_back(std::move(row));
      progress.End("done");
    }
  }
  if (!bench->keep) {
    std::filesystem::remove_all(logged, ec);
    std::filesystem::remove(done, ec);
  }
  std::filesystem::remove_all(copy, ec);
  fmt::print(
      "\nOpening after a kill: {} logged since it was closed, commits of ten relationships with a\n"
      "text of {} bytes, files in the page cache. Resident: the most, of a process that opens "
      "it\n{}",
      FormatBytes(bytes), kTextBytes, table.Render());
  bench->report["reopen"] = std::move(rows);
  return absl::OkStatus();
}

}  // namespace pulse::bench
