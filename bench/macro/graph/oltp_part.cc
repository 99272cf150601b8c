// Figure 6 of the DSA paper: GTPC's transactions by structure: all relationships in layer 0, which
// is a list for each node, or nine tenths in sorted runs; these in memory, or half of them in a
// second tier, of which there is a stand-in, or on the device; then once more after updates.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/progress.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "bench/macro/faults/soak_trend.h"
#include "bench/macro/graph/graph_bench.h"
#include "bench/macro/graph/gtpc_clients.h"
#include "bench/macro/graph/gtpc_database.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// Where the half of the runs is that is not in reach at once, before each transaction.
enum class Half { kMapped, kInTier, kOnDevice };

// The files that a store has mapped: its runs.
class MappedRuns {
 public:
  static absl::StatusOr<MappedRuns> Of(const std::string& dir) {
    std::error_code ec;
    const std::string under = std::filesystem::canonical(dir, ec).string() + "/";
    MappedRuns runs;
    std::string line;
    for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) {
      const size_t path = line.find(under);
      uintptr_t begin = 0, end = 0, offset = 0;
      if (path == std::string::npos ||
          std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) != 3) {
        continue;
      }
      File& file = runs.files_[line.substr(path)];
      file.mappings.push_back({begin, offset, end - begin});
      file.bytes = std::max<uint64_t>(file.bytes, offset + end - begin);
    }
    for (auto& [path, file] : runs.files_) {
      file.fd = OpenFile(path, O_RDONLY, 0);
      // Only what is clean leaves the page cache.
      if (!file.fd.valid() || fdatasync(file.fd.get()) != 0) {
        return ErrnoError(errno, "opening", path);
      }
    }
    return runs;
  }

  // Which half of the chunks of 1 MiB is away; the other one is brought in.
  absl::Status ChooseHalf(Half where, std::mt19937_64* random) {
    if (where == Half::kMapped) return absl::OkStatus();
    if (files_.empty()) return absl::InternalError("no run is mapped, so none can be away");
    for (auto& [path, file] : files_) {
      for (uint64_t at = 0; at < file.bytes; at += kChunk) {
        file.away.push_back((*random)() % 2 == 0);
        if (file.away.back()) continue;
        for (const Mapping& m : file.mappings) {
          const uint64_t to = std::min(at + kChunk, m.offset + m.bytes);
          for (uint64_t page = std::max(at, m.offset); page < to; page += kPage) {
            (void)*reinterpret_cast<const volatile char*>(m.begin + (page - m.offset));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  // Those chunks leave the page tables, and the page cache if they are to be on the device: a
  // buffer for half of the data.
  void LeaveHalf(Half where) const {
    if (where == Half::kMapped) return;
    for (const auto& [path, file] : files_) {
      for (uint64_t at = 0; at < file.bytes; at += kChunk) {
        if (!file.away[at / kChunk]) continue;
        for (const Mapping& m : file.mappings) {
          const uint64_t from = std::max(at, m.offset);
          const uint64_t to = std::min(at + kChunk, m.offset + m.bytes);
          if (from >= to) continue;
          (void)madvise(reinterpret_cast<void*>(m.begin + (from - m.offset)), to - from,
                        MADV_DONTNEED);
        }
        if (where == Half::kOnDevice) {
          posix_fadvise(file.fd.get(), static_cast<off_t>(at), static_cast<off_t>(kChunk),
                        POSIX_FADV_DONTNEED);
        }
      }
    }
  }

 private:
  static constexpr uint64_t kChunk = uint64_t{1} << 20;
  static constexpr uint64_t kPage = 4096;
  struct Mapping {
    uintptr_t begin;
    uint64_t offset, bytes;
  };
  struct File {
    std::vector<Mapping> mappings;
    uint64_t bytes = 0;
    std::vector<bool> away;  // its chunks
    UniqueFd fd;
  };
  std::map<std::string, File> files_;
};

struct Structure {
  std::string key, name;
  bool by_transaction = false;
  Half half = Half::kMapped;
  std::unique_ptr<GtpcDatabase> database;
  std::unique_ptr<GtpcClients> clients;
  // By transaction and whether after updates: seconds and CPU seconds of each.
  std::map<std::pair<std::string, bool>, std::vector<double>> seconds;
  std::map<std::pair<std::string, bool>, double> cpu_s;
};

std::string PathOf(const Structure& structure, const std::string& dir) {
  return dir + "/oltp-" + structure.key;
}

absl::Status MakeStructure(const GtpcData& data, const std::string& dir, Progress* progress,
                           Structure* structure) {
  const std::string csv = dir + "/oltp-csv", path = PathOf(*structure, dir);
  std::error_code ec;
  for (const std::string& directory : {csv, path}) {
    std::filesystem::remove_all(directory, ec);
    PULSE_RETURN_IF_ERROR(MakeDirectory(directory));
  }
  GtpcDatabase::MakeOptions options;
  options.store.sync = false;  // the structure is measured, not the device
  options.store.flush_chunks = 0;
  options.store.checkpoint_bytes = uint64_t{1} << 40;
  options.store.memory_limit = uint64_t{8} << 30;
  options.store.page_reads = structure->half == Half::kOnDevice;
  options.by_transaction = structure->by_transaction;
  // A sixth of the lines' relationships are a tenth of all.
  options.last_order = structure->by_transaction ? 0 : data.orders() * 5 / 6;
  PULSE_ASSIGN_OR_RETURN(
      structure->database,
      GtpcDatabase::Make(data, csv, path, options,
                         [progress](const std::string&, uint64_t, uint64_t) { progress->Tick(); }));
  if (!structure->by_transaction) {
    PULSE_RETURN_IF_ERROR(structure->database->AddLineEdges(data, options.last_order + 1));
  }
  std::filesystem::remove_all(csv, ec);
  return structure->database->CreateIndexes();
}

absl::Status Measure(Structure* structure, const std::string& dir, int count, bool after,
                     uint64_t seed) {
  PULSE_ASSIGN_OR_RETURN(MappedRuns runs, MappedRuns::Of(PathOf(*structure, dir)));
  std::mt19937_64 random(seed);
  PULSE_RETURN_IF_ERROR(runs.ChooseHalf(structure->half, &random));
  for (const GtpcTransaction& transaction : GtpcOltp()) {
    const std::pair key(std::string(transaction.name), after);
    for (int i = 0; i < count; ++i) {
      runs.LeaveHalf(structure->half);
      const cypher::ValueMap parameters = structure->clients->Next();
      const Stretch one;
      PULSE_RETURN_IF_ERROR(
          RunGtpcTransaction(transaction, parameters, structure->database->service()));
      structure->seconds[key].push_back(one.seconds());
      structure->cpu_s[key] += one.cpu_seconds();
    }
  }
  return absl::OkStatus();
}

absl::Status Update(Structure* structure, int count, Progress* progress) {
  for (int i = 0; i < count; ++i) {
    for (const size_t which : {0, 1}) {
      PULSE_RETURN_IF_ERROR(RunGtpcTransaction(GtpcOltp()[which], structure->clients->Next(),
                                               structure->database->service()));
    }
    if (i % 100 == 0) progress->Tick();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOltpPart(GraphBench* bench) {
  const GtpcData data({.warehouses = 1, .tiny = bench->tiny, .seed = bench->seed});
  const int count = bench->tiny ? 10 : 100, updates = bench->tiny ? 20 : 2000;
  Structure structures[4];
  const size_t total = std::size(structures);
  structures[0].key = "adjacency";
  structures[0].name = "adjacency";
  structures[0].by_transaction = true;
  structures[1].key = "runs";
  structures[1].name = "runs";
  structures[2].key = "hybrid";
  structures[2].name = "runs, half in the tier (stand-in)";
  structures[2].half = Half::kInTier;
  structures[3].key = "half";
  structures[3].name = "runs, half on the device";
  structures[3].half = Half::kOnDevice;
  nlohmann::json stores = nlohmann::json::object();
  {
    Progress progress(2 * static_cast<int>(total) + 2 * bench->rounds);
    for (Structure& s : structures) {
      progress.Begin("making " + s.name);
      PULSE_RETURN_IF_ERROR(MakeStructure(data, bench->dir, &progress, &s));
      s.clients = std::make_unique<GtpcClients>(data, bench->seed);
      const graph::StoreStats stats = s.database->store()->stats();
      stores[s.name] = {{"chunk_bytes", stats.chunk_bytes}, {"run_bytes", stats.run_bytes}};
      progress.End("done");
    }
    for (const bool after : {false, true}) {
      if (after) {
        for (Structure& s : structures) {
          progress.Begin("updates of " + s.name);
          PULSE_RETURN_IF_ERROR(Update(&s, updates, &progress));
          progress.End("done");
        }
      }
      for (int round = 0; round < bench->rounds; ++round) {
        progress.Begin(after ? "after updates" : "before updates");
        for (size_t turn = 0; turn < total; ++turn) {
          PULSE_RETURN_IF_ERROR(Measure(&structures[(turn + static_cast<size_t>(round)) % total],
                                        bench->dir, count, after,
                                        bench->seed + static_cast<uint64_t>(round)));
          progress.Tick();
        }
        progress.End("done");
      }
    }
  }
  TextTable table({"", "structure", "us", "p99", "CPU us", "by adjacency"});
  table.AlignLeft(1);
  nlohmann::json rows = nlohmann::json::array();
  for (const bool after : {false, true}) {
    std::vector<double> ratios;
    for (const GtpcTransaction& transaction : GtpcOltp()) {
      const std::pair key(std::string(transaction.name), after);
      nlohmann::json row = {{"transaction", key.first}, {"after_updates", after}};
      double list = 0;
      for (const Structure& s : structures) {
        const std::vector<double>& seconds = s.seconds.at(key);
        const double median = MedianOf(seconds), p99 = Percentile(seconds, 0.99);
        const double each = s.cpu_s.at(key) / static_cast<double>(seconds.size());
        if (list == 0) list = median;
        table.AddRow(
            {&s != structures ? "" : absl::StrCat(key.first, after ? ", after updates" : ""),
             s.name, fmt::format("{:.0f}", median * 1e6), fmt::format("{:.0f}", p99 * 1e6),
             fmt::format("{:.0f}", each * 1e6), fmt::format("{:.2f}", median / list)});
        row[s.key] = {
            {"median_s", median}, {"p99_s", p99}, {"cpu_s", each}, {"count", seconds.size()}};
        if (s.key == "runs") {
          row["ratio"] = median / list;
          ratios.push_back(median / list);
        }
      }
      rows.push_back(std::move(row));
    }
    bench->here[after ? "oltp/after" : "oltp/before"] = MedianOf(ratios);
  }
  std::error_code ec;
  for (Structure& s : structures) {
    s.database.reset();
    if (!bench->keep) std::filesystem::remove_all(PathOf(s, bench->dir), ec);
  }
  fmt::print(
      "\nFigure 6: GTPC's transactions by one client, a warehouse, without sync. Runs have nine "
      "tenths\n"
      "of the relationships, layer 0 a tenth. Half: before each transaction, a random half of the "
      "runs'\n"
      "chunks of 1 MiB leaves memory, for the device, or for what stands for a second tier: the "
      "page\n"
      "cache, from which pages are mapped. Updates: {} new orders and as many payments\n{}",
      updates, table.Render());
  bench->report["oltp"] = {{"rows", std::move(rows)}, {"stores", std::move(stores)}};
  return absl::OkStatus();
}

}  // namespace pulse::bench
