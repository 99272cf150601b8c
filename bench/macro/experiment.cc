#include "bench/macro/experiment.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/pulse/util/disk.h"
#include "fmt/format.h"

namespace pulse::bench {

absl::StatusOr<std::vector<const Experiment*>> SelectExperiments(
    const Experiments& all, const std::vector<std::string>& names) {
  std::vector<const Experiment*> chosen;
  const auto is_named = [&names](const Experiment& e) {
    return std::find(names.begin(), names.end(), e.name()) != names.end();
  };
  std::vector<std::string> known;
  for (const auto& experiment : all) {
    known.push_back(experiment->name());
    if (names.empty() ? !experiment->optional() : is_named(*experiment))
      chosen.push_back(experiment.get());
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--only: there is no experiment \"", name,
                                                     "\"; choose from ",
                                                     absl::StrJoin(known, ", ")));
    }
  }
  return chosen;
}

double LargestScale(const std::vector<const Experiment*>& experiments, const Needs& there,
                    Size size) {
  const auto fits = [&](double scale) {
    size.scale = scale;
    return std::all_of(experiments.begin(), experiments.end(), [&](const Experiment* experiment) {
      const Needs needs = experiment->NeedsAt(size);
      return needs.disk <= there.disk && needs.memory <= there.memory;
    });
  };
  // Two digits: 1, 0.99 ... 0.1, 0.099 ... down to a few megabytes.
  for (double unit = 0.01; unit >= 1e-6; unit /= 10) {
    for (int digits = unit == 0.01 ? 100 : 99; digits >= 10; --digits) {
      if (fits(digits * unit)) return digits * unit;
    }
  }
  return 0;
}

absl::Status CheckNeeds(const std::vector<const Experiment*>& experiments, const Needs& there,
                        const Size& size, const std::string& where, const std::string& left_over) {
  std::vector<std::string> lacks;
  bool disk = false;
  for (const Experiment* experiment : experiments) {
    const Needs needs = experiment->NeedsAt(size);
    if (needs.disk > there.disk) {
      disk = true;
      lacks.push_back(fmt::format("{} needs {} of disk in {}, which has {} free",
                                  experiment->name(), FormatBytes(needs.disk), where,
                                  FormatBytes(there.disk)));
    }
    if (needs.memory > there.memory) {
      lacks.push_back(fmt::format("{} needs {} of memory, and {} can be had", experiment->name(),
                                  FormatBytes(needs.memory), FormatBytes(there.memory)));
    }
  }
  if (lacks.empty()) return absl::OkStatus();
  std::string remedy;
  if (disk && !left_over.empty()) absl::StrAppend(&remedy, left_over, "; ");
  const double largest = size.tiny ? 0 : LargestScale(experiments, there, size);
  absl::StrAppend(
      &remedy, largest > 0
                   ? fmt::format("the largest --scale that fits is {:.2g}", largest)
                   : "no scale fits: make room, choose another --dir, or leave these out (--only)");
  return absl::ResourceExhaustedError(
      fmt::format("at --scale {}: {}; {}", size.scale, absl::StrJoin(lacks, "; "), remedy));
}

namespace {

// The number in a file of a control group; nothing for "max".
std::optional<uint64_t> ReadNumber(const std::string& file) {
  std::ifstream in(file);
  uint64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

// What is left of the limit of the group in `dir`: what it could drop counts as free.
uint64_t LeftInGroup(const std::string& dir) {
  const auto limit = ReadNumber(dir + "/memory.max");
  const auto used = ReadNumber(dir + "/memory.current");
  if (!limit || !used) return UINT64_MAX;
  uint64_t dropped = 0;
  std::ifstream in(dir + "/memory.stat");
  for (std::string key; in >> key;) {
    uint64_t value = 0;
    in >> value;
    if (key == "inactive_file") dropped = value;
  }
  const uint64_t kept = *used - std::min(*used, dropped);
  return *limit - std::min(*limit, kept);
}

// A field of mountinfo, where blanks and the like are written as \040.
std::string MountField(const std::string& text) {
  const auto digit = [&text](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '7' ? text[at] - '0' : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const int a = digit(i + 1), b = digit(i + 2), c = digit(i + 3);
    if (text[i] == '\\' && a >= 0 && b >= 0 && c >= 0) {
      out.push_back(static_cast<char>(a * 64 + b * 8 + c));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace

std::string MountSource(const std::string& dir, const std::string& root) {
  std::error_code ec;
  std::string path = std::filesystem::canonical(dir, ec).string();
  if (ec) path = dir;
  std::string source = "unknown";
  size_t longest = 0;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    // 36 35 98:0 /root /mount/point options [more] - type source super-options
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || fields.end() - dash < 3) continue;
    const std::string at = MountField(fields[4]);
    const bool above = at == "/" || path == at || absl::StartsWith(path, at + "/");
    // Of several at one place the last is on top.
    if (!above || at.size() < longest) continue;
    longest = at.size();
    source = MountField(dash[2]);
  }
  return source;
}

uint64_t AvailableMemory(const std::string& root) {
  uint64_t least = UINT64_MAX;
  std::ifstream in(root + "/proc/meminfo");
  for (std::string word; in >> word;) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && in >> kib) least = kib << 10;
  }
  // Each group limits those within it.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!absl::StartsWith(line, "0::/")) continue;  // of the unified hierarchy
    for (std::string path = line.substr(3);; path.resize(path.rfind('/'))) {
      least = std::min(least, LeftInGroup(absl::StrCat(root, "/sys/fs/cgroup", path)));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

double RunSeconds(uint64_t writes, uint64_t record_bytes, uint64_t reads) {
  // To start, to empty the page cache, to open and to close.
  constexpr double kOnce = 1.2;
  constexpr double kWrite = 4e-6, kRead = 110e-6;
  // Each record is merged some times on its way down.
  constexpr double kPasses = 8, kEntry = 0.32e-6, kByte = 1e-9;
  const double record = kWrite + kPasses * (kEntry + kByte * static_cast<double>(record_bytes));
  return kOnce + static_cast<double>(writes) * record + static_cast<double>(reads) * kRead;
}

}  // namespace pulse::bench
