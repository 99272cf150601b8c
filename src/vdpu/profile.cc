#include "vdpu/profile.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errors.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace pulse::vdpu {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 10;
constexpr int kMostCores = 1024;
constexpr char kSeeAnother[] = "`pulse agent --print-profile bf2` shows a whole one";

absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }

// Takes the keys out of one table, so that what is left over is unknown.
class TableReader {
 public:
  TableReader(toml::table* table, std::string prefix, absl::string_view origin)
      : table_(table), prefix_(std::move(prefix)), origin_(origin) {}

  absl::Status ReadText(const char* key, std::string* out) {
    PULSE_ASSIGN_OR_RETURN(auto node, Take(key));
    const auto value = node->value_exact<std::string>();
    if (!value) return Wrong(key, *node, "expected a text in quotes");
    *out = *value;
    return absl::OkStatus();
  }

  absl::Status ReadNumber(const char* key, double least, double most, double* out) {
    PULSE_ASSIGN_OR_RETURN(auto node, Take(key));
    const std::string expected = absl::StrCat("expected a number from ", least, " to ", most);
    // 8 means 8.0.
    if (!node->is_number()) return Wrong(key, *node, expected);
    const double value = *node->value<double>();
    if (!std::isfinite(value) || value < least || value > most) {
      return Wrong(key, *node, absl::StrCat(value, " is out of range; ", expected));
    }
    *out = value;
    return absl::OkStatus();
  }

  absl::Status ReadInteger(const char* key, int least, int most, int* out) {
    PULSE_ASSIGN_OR_RETURN(auto node, Take(key));
    const std::string expected = absl::StrCat("expected a whole number from ", least, " to ", most);
    const auto value = node->value_exact<int64_t>();
    if (!value) return Wrong(key, *node, expected);
    if (*value < least || *value > most) {
      return Wrong(key, *node, absl::StrCat(*value, " is out of range; ", expected));
    }
    *out = static_cast<int>(*value);
    return absl::OkStatus();
  }

  // Whether this key, which need not be there, is.
  bool Has(const char* key) {
    known_.emplace_back(key);
    return table_->contains(key);
  }

  absl::StatusOr<TableReader> ReadTable(const char* key) {
    PULSE_ASSIGN_OR_RETURN(auto node, Take(key));
    if (!node->is_table()) {
      return Wrong(key, *node, absl::StrCat("expected a table: a line [", prefix_, key, "]"));
    }
    return TableReader(node->as_table(), absl::StrCat(prefix_, key, "."), origin_);
  }

  // To be called last.
  absl::Status NothingElse() const {
    for (const auto& [key, node] : *table_) {
      bool known = false;
      for (const std::string& k : known_) known |= View(key.str()) == k;
      if (known) continue;
      return Error(node.source().begin.line,
                   absl::StrCat("unknown key \"", prefix_, View(key.str()), "\"; known ",
                                prefix_.empty() ? "at the top" : "in this table", " are ",
                                absl::StrJoin(known_, ", ")));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<toml::node*> Take(const char* key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    toml::node* node = table_->get(key);
    if (node != nullptr) return node;
    return Error(table_->source().begin.line,
                 absl::StrCat("key \"", prefix_, key, "\" is missing; ", kSeeAnother));
  }
  absl::Status Wrong(const char* key, const toml::node& node, absl::string_view expected) const {
    return Error(node.source().begin.line, absl::StrCat("\"", prefix_, key, "\": ", expected));
  }
  absl::Status Error(uint32_t line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(origin_, ":", line == 0 ? 1 : line, ": ", what));
  }

  toml::table* table_;
  std::string prefix_;
  absl::string_view origin_;
  std::vector<std::string> known_;
};

absl::Status UnknownProfile(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat("unknown profile \"", name, "\"; known are ",
                                          KnownProfiles(), ", or give a file: ./NAME.toml"));
}

absl::Status FillEngines(TableReader tables, Profile* p) {
  for (const std::string& operation : AcceleratedOperations()) {
    if (!tables.Has(operation.c_str())) continue;
    PULSE_ASSIGN_OR_RETURN(auto table, tables.ReadTable(operation.c_str()));
    AcceleratorProfile engine;
    engine.operation = operation;
    PULSE_RETURN_IF_ERROR(table.ReadNumber("rate_gb_s", 0.001, 1000, &engine.rate_gb_s));
    PULSE_RETURN_IF_ERROR(table.ReadNumber("latency_us", 0, 1'000'000, &engine.latency_us));
    PULSE_RETURN_IF_ERROR(table.ReadNumber("setup_ms", 0, 10'000, &engine.setup_ms));
    PULSE_RETURN_IF_ERROR(table.ReadNumber("reconfigure_ms", 0, 10'000, &engine.reconfigure_ms));
    PULSE_RETURN_IF_ERROR(
        table.ReadNumber("largest_buffer_mib", 0.0625, 4096, &engine.largest_buffer_mib));
    PULSE_RETURN_IF_ERROR(table.ReadInteger("depth", 1, 64, &engine.depth));
    if (operation == "regex" && table.Has("query_rate_gb_s")) {
      PULSE_ASSIGN_OR_RETURN(auto rates, table.ReadTable("query_rate_gb_s"));
      for (const char* query : {"Q1", "Q2", "Q3", "Q4"}) {
        PULSE_RETURN_IF_ERROR(rates.ReadNumber(query, 0.001, 1000, &engine.query_rate_gb_s[query]));
      }
      PULSE_RETURN_IF_ERROR(rates.NothingElse());
    }
    PULSE_RETURN_IF_ERROR(table.NothingElse());
    p->engines.push_back(std::move(engine));
  }
  return tables.NothingElse();
}

absl::Status Fill(TableReader top, Profile* p) {
  PULSE_RETURN_IF_ERROR(top.ReadText("name", &p->name));
  PULSE_RETURN_IF_ERROR(top.ReadText("description", &p->description));
  PULSE_ASSIGN_OR_RETURN(auto cpu, top.ReadTable("cpu"));
  PULSE_RETURN_IF_ERROR(cpu.ReadNumber("core_speed", 0.01, 1, &p->core_speed));
  PULSE_RETURN_IF_ERROR(cpu.ReadInteger("cores", 1, kMostCores, &p->cores));
  PULSE_RETURN_IF_ERROR(cpu.NothingElse());
  PULSE_ASSIGN_OR_RETURN(auto dma, top.ReadTable("dma"));
  PULSE_RETURN_IF_ERROR(dma.ReadNumber("latency_us", 0, 100'000, &p->dma_latency_us));
  PULSE_RETURN_IF_ERROR(dma.ReadNumber("bandwidth_gb_s", 0.01, 1000, &p->dma_bandwidth_gb_s));
  PULSE_RETURN_IF_ERROR(dma.ReadNumber("operation_us", 0, 100'000, &p->dma_operation_us));
  PULSE_RETURN_IF_ERROR(dma.NothingElse());
  PULSE_ASSIGN_OR_RETURN(auto context, top.ReadTable("context"));
  PULSE_RETURN_IF_ERROR(context.ReadNumber("setup_ms", 0, 10'000, &p->setup_ms));
  PULSE_RETURN_IF_ERROR(context.ReadNumber("reconfigure_ms", 0, 10'000, &p->reconfigure_ms));
  PULSE_RETURN_IF_ERROR(context.NothingElse());
  if (top.Has("memory")) {
    PULSE_ASSIGN_OR_RETURN(auto memory, top.ReadTable("memory"));
    PULSE_RETURN_IF_ERROR(memory.ReadNumber("size_gib", 0.0625, 65536, &p->memory_gib));
    PULSE_RETURN_IF_ERROR(memory.NothingElse());
  }
  if (top.Has("engine")) {
    PULSE_ASSIGN_OR_RETURN(auto engines, top.ReadTable("engine"));
    PULSE_RETURN_IF_ERROR(FillEngines(std::move(engines), p));
  }
  return top.NothingElse();
}

}  // namespace

const std::vector<std::string>& AcceleratedOperations() {
  static const std::vector<std::string> all = {"compress-deflate", "decompress-deflate",
                                               "decompress-lz4", "regex"};
  return all;
}

const AcceleratorProfile* Profile::EngineFor(absl::string_view operation) const {
  for (const AcceleratorProfile& engine : engines) {
    if (engine.operation == operation) return &engine;
  }
  return nullptr;
}

std::string KnownProfiles() {
  return absl::StrJoin(BuiltInProfiles(), ", ", [](std::string* out, const BuiltInProfile& p) {
    absl::StrAppend(out, p.name);
  });
}

absl::StatusOr<Profile> ParseProfile(absl::string_view text, absl::string_view origin) {
  toml::parse_result parsed = toml::parse(std::string_view(text.data(), text.size()),
                                          std::string_view(origin.data(), origin.size()));
  if (!parsed) {
    const toml::parse_error& e = parsed.error();
    return absl::InvalidArgumentError(absl::StrCat(origin, ":", e.source().begin.line, ": ",
                                                   View(e.description()), "; ", kSeeAnother));
  }
  Profile profile;
  PULSE_RETURN_IF_ERROR(Fill(TableReader(&parsed.table(), "", origin), &profile));
  return profile;
}

absl::StatusOr<std::string> ProfileText(const std::string& name) {
  for (const BuiltInProfile& p : BuiltInProfiles()) {
    if (p.name == name) return p.text;
  }
  return UnknownProfile(name);
}

absl::StatusOr<Profile> LoadProfile(const std::string& name_or_path) {
  if (!absl::StrContains(name_or_path, "/") && !absl::EndsWith(name_or_path, ".toml")) {
    // There is nothing to load: who takes "none" knows what that is.
    if (name_or_path == "none") return UnknownProfile(name_or_path);
    PULSE_ASSIGN_OR_RETURN(auto text, ProfileText(name_or_path));
    return ParseProfile(text, name_or_path + ".toml");
  }
  std::ifstream file(name_or_path, std::ios::binary);
  const int error = errno;
  if (!file) return ErrnoError(error, "opening the profile", name_or_path);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && !file.eof())) {
    return ErrnoError(errno != 0 ? errno : EIO, "reading the profile", name_or_path);
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_or_path, ": more than ", kMaxFileBytes, " bytes; ", kSeeAnother));
  }
  return ParseProfile(text, name_or_path);
}

std::string Describe(const Profile& p) {
  return absl::StrCat(p.name, " (", p.cores, p.cores == 1 ? " core" : " cores", " at ",
                      p.core_speed, " of a host core, DMA ", p.dma_latency_us, " us and ",
                      p.dma_bandwidth_gb_s, " GB/s)");
}

std::string Shortfall(const Profile& p, int cpus) {
  const double wanted = p.cores * p.core_speed;
  const bool no_bound = p.cores == kMostCores && p.core_speed >= 1;  // see none.toml
  if (wanted <= cpus || no_bound) return {};
  const int shown = static_cast<int>(cpus / p.core_speed);
  return absl::StrCat("profile ", p.name, " has ", p.cores, " cores at ", p.core_speed,
                      " of a host core, as much as ", wanted, " host CPUs, and this agent may use ",
                      cpus, ": each core has its speed while no more than ", shown < 1 ? 1 : shown,
                      shown <= 1 ? " is" : " are", " busy, and more of them share what there is");
}

}  // namespace pulse::vdpu
