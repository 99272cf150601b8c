// What tests of histories of groups of keys share. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "checker.h"
#include "history_test.h"
#include "transaction_load.h"

namespace pulse::linear {

inline TransactionLoadOptions Groups(uint16_t port) {
  TransactionLoadOptions options;
  options.seed = Seeds()();
  options.port = port;
  options.prefix = absl::StrCat("g", options.seed % 1'000'000, "-");
  return options;
}

// The first group that is not linearizable.
inline Verdict Check(const TransactionLoad& load) {
  for (const auto& [group, transactions] : load.history()) {
    Verdict verdict = CheckTransactions(group, TransactionLoad::kKeys, transactions);
    if (!verdict.ok()) return verdict;
  }
  return {};
}

inline void ExpectLinearizable(const TransactionLoad& load) {
  for (const std::string& reply : load.surprises()) ADD_FAILURE() << reply;
  const Verdict verdict = Check(load);
  EXPECT_TRUE(verdict.ok()) << verdict.report;
  // Both ends of a WATCH were among them.
  EXPECT_GT(load.committed(), 0u);
  EXPECT_GT(load.aborted(), 0u);
  printf(
      "  %llu commands and transactions of groups; of those with WATCH %llu carried out, %llu "
      "not; %llu outcomes not known, %llu refused, %llu connections lost\n",
      static_cast<unsigned long long>(load.answered()),
      static_cast<unsigned long long>(load.committed()),
      static_cast<unsigned long long>(load.aborted()),
      static_cast<unsigned long long>(load.unknown()),
      static_cast<unsigned long long>(load.refused()),
      static_cast<unsigned long long>(load.lost()));
  fflush(stdout);
}

}  // namespace pulse::linear
