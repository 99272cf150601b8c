// Every option that touches files, off its default: alone and in pairs, on pulse://. Of the pairs
// `make test` takes a sample by the seed; PULSE_TEST_LONG=1 takes all, PULSE_TEST_SEED repeats a
// run. AddressSanitizer gets a sample of all. Each case is a process of its own with a deadline. A
// case that fails is tried without the plug-in: what fails there as well is RocksDB's, and counts
// as refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/testing.h"
#include "options/child_case.h"
#include "options/option_case.h"
#include "options/option_table.h"
#include "options/pairwise.h"
#include "services/lsm/core/test_support.h"

namespace pulse::options_test {
namespace {

using lsm::test::ScratchDir;
using Settings = std::vector<const Setting*>;

constexpr size_t kRowSize = 14;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kEach = 8;  // of the settings alone, one in so many, unless all are wanted
constexpr size_t kSampleRows = 4;
#else
constexpr size_t kEach = 3;
constexpr size_t kSampleRows = 12;
#endif
constexpr size_t kPoolSettings = 16;
constexpr size_t kPoolRows = 4;

struct Count {
  size_t passed = 0;
  size_t refused = 0;
};

CaseOutcome RunOnce(const Settings& settings, Where where) {
  ScratchDir dir;
  const uint64_t seed = testing_util::TestSeed();
  return RunInChild([&] { return RunCase(settings, where, dir.path(), seed); });
}

// RocksDB 7.8's atomic flush asserts now and then that the families' reasons for it are the same
// (AtomicFlushMemTablesToOutputFiles), with and without the plug-in: so it has several attempts.
CaseOutcome RunOne(const Settings& settings, Where where) {
  const bool asserts = std::any_of(settings.begin(), settings.end(), [](const Setting* s) {
    return std::string_view(s->option) == "options.atomic_flush";
  });
  CaseOutcome outcome = RunOnce(settings, where);
  for (int i = 0; asserts && outcome.kind == CaseOutcome::kFailed && i < 6; ++i) {
    printf("atomic flush, tried again: %s\n", outcome.message.c_str());
    outcome = RunOnce(settings, where);
  }
  return outcome;
}

// In RocksDB 7.8, with and without the plug-in, about every other Flush of these two waits for a
// flush that nobody has scheduled. They are taken apart here and not in the table of conflicts,
// which would make all rows others.
bool HangsNowAndThen(const Settings& settings) {
  const auto has = [&](std::string_view option) {
    return std::any_of(settings.begin(), settings.end(),
                       [&](const Setting* s) { return s->option == option; });
  };
  return has("options.min_write_buffer_number_to_merge") && has("options.max_total_wal_size");
}

// Checks `settings` together. What RocksDB refuses is tried in two halves.
void Check(Settings settings, Where where, Count* count) {
  if (HangsNowAndThen(settings)) {
    std::erase_if(settings, [](const Setting* s) {
      return std::string_view(s->option) == "options.max_total_wal_size";
    });
  }
  const CaseOutcome outcome = RunOne(settings, where);
  if (outcome.kind == CaseOutcome::kPassed) {
    ++count->passed;
    return;
  }
  printf("not passed, tried without the plug-in: %s: %s\n", NamesOf(settings).c_str(),
         outcome.message.c_str());
  fflush(stdout);
  // RocksDB may hang, or fail, now and then only: one time is enough.
  CaseOutcome stock = RunOnce(settings, Where::kStock);
  for (int i = 0; stock.kind == CaseOutcome::kPassed && i < 15; ++i) {
    stock = RunOnce(settings, Where::kStock);
  }
  if (stock.kind == CaseOutcome::kPassed) {
    ADD_FAILURE() << "with " << NamesOf(settings) << ":\n" << outcome.message;
    return;
  }
  ++count->refused;
  printf("nor there: %s\n", stock.message.c_str());
  if (settings.size() == 1) return;
  const auto middle = settings.begin() + static_cast<ptrdiff_t>(settings.size() / 2);
  Check(Settings(settings.begin(), middle), where, count);
  Check(Settings(middle, settings.end()), where, count);
}

std::vector<Settings> Rows() {
  const Settings all = AllSettings();
  std::vector<Settings> rows;
  for (const auto& numbers :
       PairwiseRows(all.size(), kRowSize, testing_util::TestSeed(),
                    [&](size_t a, size_t b) { return KnownConflict(*all[a], *all[b]); })) {
    Settings row;
    for (const size_t n : numbers) row.push_back(all[n]);
    rows.push_back(std::move(row));
  }
  return rows;
}

// In parts, so that ctest's shards have equally much to do.
class OptionMatrixTest : public ::testing::TestWithParam<size_t> {};
constexpr size_t kParts = 4;

TEST_P(OptionMatrixTest, EachSetting_Alone_Works) {
  const Settings all = AllSettings();
  Count count;
  const size_t each = testing_util::LongTests() ? 1 : kEach;
  const size_t first = testing_util::TestSample() % each;
  for (size_t i = GetParam() + first * kParts; i < all.size(); i += kParts * each) {
    Check({all[i]}, Where::kPulse, &count);
  }
  EXPECT_GT(count.passed, count.refused * 8);
}

TEST_P(OptionMatrixTest, PairsOfSettings_Together_Work) {
  const std::vector<Settings> rows = Rows();
  const size_t n = testing_util::LongTests() ? rows.size() : std::min(rows.size(), kSampleRows);
  Count count;
  for (size_t i = GetParam(); i < n; i += kParts) Check(rows[i], Where::kPulse, &count);
  printf("%zu of %zu rows with every pair; %zu cases passed, %zu refused by RocksDB\n", n,
         rows.size(), count.passed, count.refused);
  EXPECT_GT(count.passed, 0u);
}

TEST_P(OptionMatrixTest, OnAPool_SomeSettings_Work) {
  Settings all = AllSettings();
  std::mt19937_64 rng(testing_util::TestSeed());
  std::shuffle(all.begin(), all.end(), rng);
  const std::vector<Settings> rows = Rows();
  const bool everything = testing_util::LongTests();
  Count count;
  for (size_t i = GetParam(); i < (everything ? all.size() : kPoolSettings); i += kParts) {
    Check({all[i]}, Where::kPulsePool, &count);
  }
  for (size_t i = GetParam(); i < (everything ? rows.size() : kPoolRows); i += kParts) {
    Check(rows[rows.size() - 1 - i], Where::kPulsePool, &count);
  }
  EXPECT_GT(count.passed, 0u);
}

// The settings that a failure has named: PULSE_TEST_OPTIONS="option = value; option = value", and
// PULSE_TEST_PLACE=pool for a pool, =stock for RocksDB without the plug-in.
TEST(OptionMatrix, NamedSettings_Together_Work) {
  const char* const names = getenv("PULSE_TEST_OPTIONS");
  if (names == nullptr) GTEST_SKIP() << "PULSE_TEST_OPTIONS names no settings";
  Settings settings;
  for (const Setting* s : AllSettings()) {
    if (("; " + std::string(names) + "; ").find("; " + NamesOf({s}) + "; ") != std::string::npos) {
      settings.push_back(s);
    }
  }
  ASSERT_EQ(NamesOf(settings), names);
  const char* const place = getenv("PULSE_TEST_PLACE");
  const std::string_view name = place != nullptr ? place : "pulse";
  const Where where = name == "stock"  ? Where::kStock
                      : name == "pool" ? Where::kPulsePool
                                       : Where::kPulse;
  const CaseOutcome outcome = RunOne(settings, where);
  EXPECT_EQ(outcome.kind, CaseOutcome::kPassed) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Parts, OptionMatrixTest, ::testing::Range(size_t{0}, kParts));

}  // namespace
}  // namespace pulse::options_test
