// Scanner: many rules in one database of Vectorscan. Rules that are chains are found by their
// rarest piece: few pieces by a TextFinder, more of them by a database of texts alone, which is
// several times as fast as one of patterns.
//
// It finds candidates: the rule, and where in the data a match ended. It never reports a place
// where no rule of it can have matched, except rules that were compiled as prefilters. An order of
// candidates is not promised, since Vectorscan promises none.
//
// Immutable once built; any number of threads may scan, each with a Scratch of its own.
#pragma once

#include <hs/hs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/errors.h"
#include "services/ops/filter/rule_form.h"
#include "services/ops/filter/text_finder.h"

namespace pulse::filter {

struct ScannerRule {
  uint32_t rule = 0;  // as the caller counts them
  RuleForm form;
  bool prefilter = false;  // more may be reported than the rule accepts
};

// One place of the data at which a rule may have matched.
struct Candidate {
  uint32_t rule;
  const Chain* chain;  // to be checked by the caller; null with a pattern, which has matched
  size_t piece_end;    // of a chain: where its rarest piece ends; else where the match ends
};

// What Vectorscan is used for.
enum class VectorscanUse : uint8_t { kNone, kTexts, kAll };

class Scanner {
 public:
  struct FreeDatabase {
    void operator()(hs_database_t* db) const { hs_free_database(db); }
  };
  struct FreeScratch {
    void operator()(hs_scratch_t* scratch) const { hs_free_scratch(scratch); }
  };
  using Scratch = std::unique_ptr<hs_scratch_t, FreeScratch>;

  // What it finds without missing anything, in this version and on this CPU. On x86, versions
  // before 5.4.13 miss matches of patterns: where two bytes that may begin one stand at the edge of
  // a vector. Their kernels for AVX-512 miss texts, too, and are never used for these: those for
  // AVX2, which Debian's library exports, found every one of some million.
  static VectorscanUse SoundUse();

  // What Vectorscan needs beyond a database it cannot say why; that one rule cannot be compiled,
  // and why, CanCompile says before. Unimplemented where the rules need Vectorscan and it may not
  // be used.
  static absl::StatusOr<std::unique_ptr<Scanner>> Build(const std::vector<ScannerRule>& rules,
                                                        bool lines, VectorscanUse use);

  // Whether Vectorscan takes this pattern; if not, with its reason.
  static absl::Status CanCompile(const std::string& pattern, bool lines, bool prefilter);

  absl::StatusOr<Scratch> MakeScratch() const;

  static constexpr size_t kGoOn = TextFinder::kGoOn;
  static constexpr size_t kStop = SIZE_MAX;

  // Calls `handler(candidate)` for each candidate in `data`, which is less than 4 GiB. It returns
  // kGoOn, kStop, or a place behind the candidate, before which it needs no further candidates; it
  // may still get some. Internal when Vectorscan fails.
  template <typename Handler>
  absl::Status Scan(absl::string_view data, hs_scratch_t* scratch, Handler&& handler) const {
    struct Context {
      const Scanner* scanner;
      Handler* handler;
      bool stopped;

      size_t OnKey(size_t key, size_t end) {
        for (const KeyedChain& keyed : scanner->by_key_[key]) {
          const size_t next = (*handler)(Candidate{keyed.rule, &keyed.chain, end});
          stopped = next == kStop;
          if (next != kGoOn) return next;
        }
        return kGoOn;
      }
    } context{this, &handler, false};
    if (finder_.has_value()) {
      finder_->Find(data, [&context](size_t key, size_t end) { return context.OnKey(key, end); });
    }
    if (keys_ != nullptr) {
      const auto on_key = [](unsigned key, unsigned long long, unsigned long long to, unsigned,
                             void* raw) -> int {
        auto* c = static_cast<Context*>(raw);
        c->OnKey(key, static_cast<size_t>(to));
        return c->stopped ? 1 : 0;
      };
      PULSE_RETURN_IF_ERROR(RunScan(TextKernel(), keys_.get(), data, scratch, on_key, &context));
    }
    if (patterns_ != nullptr && !context.stopped) {
      const auto on_pattern = [](unsigned rule, unsigned long long, unsigned long long to, unsigned,
                                 void* raw) -> int {
        auto* c = static_cast<Context*>(raw);
        return (*c->handler)(Candidate{rule, nullptr, static_cast<size_t>(to)}) == kStop ? 1 : 0;
      };
      PULSE_RETURN_IF_ERROR(
          RunScan(&hs_scan, patterns_.get(), data, scratch, on_pattern, &context));
    }
    return absl::OkStatus();
  }

  bool empty() const { return by_key_.empty() && patterns_ == nullptr; }
  size_t bytes() const;  // of both databases

 private:
  using Database = std::unique_ptr<hs_database_t, FreeDatabase>;

  // A chain, with which of its pieces is looked for.
  struct KeyedChain {
    uint32_t rule;
    Chain chain;
  };

  using Kernel = decltype(&hs_scan);

  // Finds texts without missing any; null: there is none here.
  static Kernel TextKernel();
  static absl::Status RunScan(Kernel kernel, const hs_database_t* db, absl::string_view data,
                              hs_scratch_t* scratch, match_event_handler handler, void* context);
  absl::Status BuildKeys(const std::vector<ScannerRule>& rules, VectorscanUse use);
  absl::Status BuildPatterns(const std::vector<ScannerRule>& rules, bool lines);

  std::optional<TextFinder> finder_;  // instead of keys_
  Database keys_;
  Database patterns_;
  std::vector<std::vector<KeyedChain>> by_key_;
};

}  // namespace pulse::filter
