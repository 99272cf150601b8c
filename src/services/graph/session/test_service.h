// A service on a database in memory, and statements for it. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/graph/model/test_memory_database.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"

namespace pulse::cypher {

class ServiceTest : public testing::Test {
 protected:
  absl::Status Run(std::string_view text, const ValueMap& parameters = {},
                   const RunOptions& options = {}) {
    sink_ = RowTexts();
    sink_.may_restart = may_restart_;
    const auto statement = service_.Prepare(text);
    if (!statement.ok()) return statement.status();
    RunOptions all = options;
    all.parameters = &parameters;
    return service_.Run(**statement, caller_, all, &sink_, &outcome_);
  }
  std::vector<std::string> Rows(std::string_view text, const ValueMap& parameters = {}) {
    const absl::Status status = Run(text, parameters);
    EXPECT_TRUE(status.ok()) << text << ": " << status;
    return sink_.rows();
  }
  std::unique_ptr<Transaction> Begin(bool read_only = false) {
    RunOptions options;
    options.read_only = read_only;
    auto transaction = service_.Begin(caller_, options);
    EXPECT_TRUE(transaction.ok()) << transaction.status();
    return *std::move(transaction);
  }
  absl::Status RunIn(Transaction* transaction, std::string_view text) {
    sink_ = RowTexts();
    const auto statement = service_.Prepare(text);
    if (!statement.ok()) return statement.status();
    return transaction->Run(**statement, nullptr, &sink_, &outcome_);
  }

  MemoryDatabase database_;
  GraphService service_{&database_, ServiceOptions()};
  Caller caller_;
  RowTexts sink_;
  Outcome outcome_;
  bool may_restart_ = true;
};

using Strings = std::vector<std::string>;

}  // namespace pulse::cypher
