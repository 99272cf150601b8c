#include "services/ops/filter/scanner.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#if defined(__x86_64__)
// In the libraries that choose kernels by the CPU, hs_scan's one for AVX2; null in others.
extern "C" hs_error_t HS_CDECL avx2_hs_scan(  // NOLINT(readability-identifier-naming)
    const hs_database_t* db, const char* data, unsigned length, unsigned flags,
    hs_scratch_t* scratch, match_event_handler on_event, void* context) __attribute__((weak));
#endif

namespace pulse::filter {
namespace {

constexpr absl::string_view kUnsound =
    "this CPU's kernels of Vectorscan miss matches, and are not used";

unsigned ScanFlags(bool lines, bool prefilter) {
  return (lines ? HS_FLAG_MULTILINE : 0U) | (prefilter ? HS_FLAG_PREFILTER : 0U) |
         HS_FLAG_ALLOWEMPTY;
}

absl::Status CompileError(hs_compile_error_t* error) {
  const std::string text = error == nullptr ? "out of memory" : error->message;
  hs_free_compile_error(error);
  return absl::UnimplementedError(text);
}

const Piece& RarestPiece(const Chain& chain) {
  const auto weight = [](const Piece& piece) {
    int sum = 0;
    for (const char c : piece.bytes) sum += Rarity(static_cast<unsigned char>(c));
    return sum;
  };
  return *std::max_element(
      chain.pieces.begin(), chain.pieces.end(),
      [&weight](const Piece& a, const Piece& b) { return weight(a) < weight(b); });
}

}  // namespace

Scanner::Kernel Scanner::TextKernel() {
#if defined(__x86_64__)
  static const Kernel kernel = [] {
    __builtin_cpu_init();
    if (avx2_hs_scan != nullptr && __builtin_cpu_supports("avx2") != 0) return &avx2_hs_scan;
    return __builtin_cpu_supports("avx512bw") != 0 ? Kernel{nullptr} : &hs_scan;
  }();
  return kernel;
#else
  return &hs_scan;
#endif
}

VectorscanUse Scanner::SoundUse() {
#if defined(__x86_64__)
  int version[3] = {};
  const bool known =
      std::sscanf(hs_version(), "%d.%d.%d", &version[0], &version[1], &version[2]) == 3;
  constexpr int kMended[3] = {5, 4, 13};
  if (known && !std::lexicographical_compare(version, version + 3, kMended, kMended + 3)) {
    return VectorscanUse::kAll;
  }
#endif
  return TextKernel() == nullptr ? VectorscanUse::kNone
#if defined(__x86_64__)
                                 : VectorscanUse::kTexts;
#else
                                 : VectorscanUse::kAll;
#endif
}

absl::StatusOr<std::unique_ptr<Scanner>> Scanner::Build(const std::vector<ScannerRule>& rules,
                                                        bool lines, VectorscanUse use) {
  auto scanner = std::make_unique<Scanner>();
  PULSE_RETURN_IF_ERROR(scanner->BuildKeys(rules, use));
  PULSE_RETURN_IF_ERROR(scanner->BuildPatterns(rules, lines));
  return scanner;
}

absl::Status Scanner::BuildKeys(const std::vector<ScannerRule>& rules, VectorscanUse use) {
  std::map<std::pair<bool, std::string>, unsigned> keys;  // its number
  for (const ScannerRule& rule : rules) {
    for (const Chain& chain : rule.form.chains) {
      const auto number = static_cast<unsigned>(keys.size());
      const auto [it, added] =
          keys.try_emplace({chain.ignore_case, RarestPiece(chain).bytes}, number);
      if (added) by_key_.emplace_back();
      by_key_[it->second].push_back({rule.rule, chain});
    }
  }
  if (keys.empty()) return absl::OkStatus();
  std::vector<std::string> few(keys.size());
  bool exact_case = true;
  for (const auto& [key, number] : keys) {
    few[number] = key.second;
    exact_case = exact_case && !key.first;
  }
  if (exact_case && TextFinder::Fits(few)) {
    finder_.emplace(std::move(few));
    return absl::OkStatus();
  }
  if (use == VectorscanUse::kNone || TextKernel() == nullptr) {
    return absl::UnimplementedError(std::string(kUnsound));
  }
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  std::vector<unsigned> flags;
  std::vector<unsigned> ids;
  for (const auto& [key, number] : keys) {
    texts.push_back(key.second.data());
    sizes.push_back(key.second.size());
    flags.push_back(key.first ? HS_FLAG_CASELESS : 0U);
    ids.push_back(number);
  }
  constexpr hs_platform_info_t kAvx2 = {HS_TUNE_FAMILY_HSW, HS_CPU_FEATURES_AVX2, 0, 0};
  hs_database_t* db = nullptr;
  hs_compile_error_t* error = nullptr;
  if (hs_compile_lit_multi(
          texts.data(), flags.data(), ids.data(), sizes.data(), static_cast<unsigned>(texts.size()),
          HS_MODE_BLOCK, TextKernel() == &hs_scan ? nullptr : &kAvx2, &db, &error) != HS_SUCCESS) {
    return CompileError(error);
  }
  keys_.reset(db);
  return absl::OkStatus();
}

absl::Status Scanner::BuildPatterns(const std::vector<ScannerRule>& rules, bool lines) {
  std::vector<const char*> patterns;
  std::vector<unsigned> flags;
  std::vector<unsigned> ids;
  for (const ScannerRule& rule : rules) {
    if (!rule.form.chains.empty()) continue;
    patterns.push_back(rule.form.pattern.c_str());
    flags.push_back(ScanFlags(lines, rule.prefilter));
    ids.push_back(rule.rule);
  }
  if (patterns.empty()) return absl::OkStatus();
  hs_database_t* db = nullptr;
  hs_compile_error_t* error = nullptr;
  if (hs_compile_multi(patterns.data(), flags.data(), ids.data(),
                       static_cast<unsigned>(patterns.size()), HS_MODE_BLOCK, nullptr, &db,
                       &error) != HS_SUCCESS) {
    return CompileError(error);
  }
  patterns_.reset(db);
  return absl::OkStatus();
}

absl::Status Scanner::CanCompile(const std::string& pattern, bool lines, bool prefilter) {
  hs_database_t* db = nullptr;
  hs_compile_error_t* error = nullptr;
  if (hs_compile(pattern.c_str(), ScanFlags(lines, prefilter), HS_MODE_BLOCK, nullptr, &db,
                 &error) != HS_SUCCESS) {
    return CompileError(error);
  }
  hs_free_database(db);
  return absl::OkStatus();
}

absl::StatusOr<Scanner::Scratch> Scanner::MakeScratch() const {
  hs_scratch_t* scratch = nullptr;
  for (const Database* db : {&keys_, &patterns_}) {
    if (*db == nullptr) continue;
    const hs_error_t error = hs_alloc_scratch(db->get(), &scratch);
    if (error != HS_SUCCESS) {
      hs_free_scratch(scratch);
      return absl::ResourceExhaustedError(
          absl::StrCat("memory for a scan of rules: Vectorscan's error ", error));
    }
  }
  return Scratch(scratch);
}

size_t Scanner::bytes() const {
  size_t all = 0;
  for (const Database* db : {&keys_, &patterns_}) {
    size_t bytes = 0;
    if (*db != nullptr && hs_database_size(db->get(), &bytes) == HS_SUCCESS) all += bytes;
  }
  return all;
}

absl::Status Scanner::RunScan(Kernel kernel, const hs_database_t* db, absl::string_view data,
                              hs_scratch_t* scratch, match_event_handler handler, void* context) {
  const hs_error_t error =
      kernel(db, data.data(), static_cast<unsigned>(data.size()), 0, scratch, handler, context);
  if (error == HS_SUCCESS || error == HS_SCAN_TERMINATED) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("scanning records: Vectorscan's error ", error));
}

}  // namespace pulse::filter
