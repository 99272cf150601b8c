#include "base/uri_options.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/cpu_list.h"

namespace pulse {

absl::StatusOr<std::map<std::string, std::string>> ParseOptionList(absl::string_view text) {
  std::map<std::string, std::string> options;
  if (text.empty()) return options;
  for (absl::string_view part : absl::StrSplit(text, '&')) {
    const size_t eq = part.find('=');
    if (eq == absl::string_view::npos || eq == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("option \"", part, "\" is not of the form key=value"));
    }
    if (!options.emplace(std::string(part.substr(0, eq)), std::string(part.substr(eq + 1)))
             .second) {
      return absl::InvalidArgumentError(
          absl::StrCat("option \"", part.substr(0, eq), "\" is given twice; give it once"));
    }
  }
  return options;
}

absl::StatusOr<ParsedUri> ParseUri(absl::string_view uri) {
  ParsedUri out;
  const size_t sep = uri.find("://");
  if (sep == absl::string_view::npos || sep == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", uri, "\" is not a URI; write it as pulse://PATH?key=value"));
  }
  out.scheme = std::string(uri.substr(0, sep));
  absl::string_view rest = uri.substr(sep + 3);
  const size_t q = rest.find('?');
  out.path = std::string(rest.substr(0, q));
  if (q == absl::string_view::npos) return out;
  auto options = ParseOptionList(rest.substr(q + 1));
  if (!options.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("URI \"", uri, "\": ", options.status().message()));
  }
  out.options = *std::move(options);
  return out;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  absl::string_view digits = text;
  double scale = 1;
  constexpr absl::string_view kUnits = "kKmMgGtT";
  if (const size_t at = digits.empty() ? kUnits.npos : kUnits.find(digits.back());
      at != kUnits.npos) {
    scale = static_cast<double>(uint64_t{1024} << at / 2 * 10);
    digits.remove_suffix(1);
  }
  double value = 0;
  // Stricter than SimpleAtod, which takes signs, spaces, exponents and hexadecimal.
  const bool plain = std::all_of(digits.begin(), digits.end(), [](char c) {
    return c == '.' || std::isdigit(static_cast<unsigned char>(c));
  });
  if (digits.empty() || !plain || !absl::SimpleAtod(digits, &value) || value * scale >= 9e18) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a size; write it as 4096, 64K, 32M or 1.5G"));
  }
  return static_cast<uint64_t>(value * scale);
}

absl::StatusOr<uint64_t> ParseSizeOption(absl::string_view option, absl::string_view text,
                                         uint64_t most) {
  const auto size = ParseBytes(text);
  if (!size.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": ", size.status().message()));
  }
  if (*size == 0 || *size > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", text, ": expected a size above 0, at most ", most, " bytes"));
  }
  return *size;
}

const std::string* OptionReader::Take(absl::string_view key) {
  known_.emplace_back(key);
  const auto it = options_.find(std::string(key));
  return it == options_.end() ? nullptr : &it->second;
}

void OptionReader::Fail(absl::string_view key, absl::string_view value,
                        absl::string_view expected) {
  if (!status_.ok()) return;
  status_ =
      absl::InvalidArgumentError(absl::StrCat("option ", key, "=", value, ": expected ", expected));
}

void OptionReader::ReadString(absl::string_view key, std::string* out) {
  if (const std::string* v = Take(key)) *out = *v;
}

void OptionReader::ReadBytes(absl::string_view key, uint64_t min, uint64_t max, uint64_t* out) {
  const std::string* v = Take(key);
  if (v == nullptr) return;
  const auto bytes = ParseBytes(*v);
  if (!bytes.ok() || *bytes < min || *bytes > max) {
    Fail(key, *v, absl::StrCat("a size from ", min, " to ", max, " bytes, such as 4096, 64K, 32M"));
    return;
  }
  *out = *bytes;
}

void OptionReader::ReadInt(absl::string_view key, int64_t min, int64_t max, int64_t* out) {
  const std::string* v = Take(key);
  if (v == nullptr) return;
  int64_t value = 0;
  if (!absl::SimpleAtoi(*v, &value) || value < min || value > max) {
    Fail(key, *v, absl::StrCat("a whole number from ", min, " to ", max));
    return;
  }
  *out = value;
}

void OptionReader::ReadCpus(absl::string_view key, std::vector<int>* out) {
  const std::string* v = Take(key);
  if (v == nullptr) return;
  auto cpus = ParseCpuList(*v);
  if (!cpus.ok()) {
    Fail(key, *v, "a CPU list such as 1 or 0,2-3");
    return;
  }
  *out = *std::move(cpus);
}

void OptionReader::ReadChoice(absl::string_view key, const std::vector<absl::string_view>& names,
                              int* out) {
  const std::string* v = Take(key);
  if (v == nullptr) return;
  const auto it = std::find(names.begin(), names.end(), *v);
  if (it == names.end()) {
    Fail(key, *v, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
    return;
  }
  *out = static_cast<int>(it - names.begin());
}

absl::Status OptionReader::Finish() const {
  for (const auto& [key, value] : options_) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option \"", key, "\"; known are ", absl::StrJoin(known_, ", ")));
    }
  }
  return status_;
}

}  // namespace pulse
