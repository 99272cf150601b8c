// A graph that is used by pulse/graph.h, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing.h"
#include "pulse/graph.h"

namespace pulse::graph {

class GraphCApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pulse_graph_options_init(&options_);
    options_.no_sync = 1;
    ASSERT_EQ(Open(), PULSE_GRAPH_OK) << error_.message;
  }
  void TearDown() override {
    for (pulse_graph_result* result : results_) pulse_graph_result_free(result);
    pulse_graph_free(graph_);
    std::filesystem::remove_all(path_.get());
  }
  int Open() {
    pulse_graph_error_init(&error_);
    return pulse_graph_open(path_.get().c_str(), &options_, &graph_, &error_);
  }
  int Run(std::string_view query, const std::vector<pulse_graph_entry>& parameters = {}) {
    pulse_graph_run run;
    pulse_graph_run_init(&run);
    run.parameters = parameters.data();
    run.parameter_count = parameters.size();
    return RunWith(query, run);
  }
  int RunWith(std::string_view query, const pulse_graph_run& run) {
    pulse_graph_error_init(&error_);
    const int code =
        pulse_graph_execute(graph_, query.data(), query.size(), &run, &result_, &error_);
    if (code == PULSE_GRAPH_OK) results_.push_back(result_);
    EXPECT_EQ(error_.code, code);
    EXPECT_EQ(result_ == nullptr, code != PULSE_GRAPH_OK);
    return code;
  }
  // The first row of a statement.
  const pulse_graph_value* Row(std::string_view query,
                               const std::vector<pulse_graph_entry>& parameters = {}) {
    static const std::vector<pulse_graph_value> kNone(8);
    EXPECT_EQ(Run(query, parameters), PULSE_GRAPH_OK) << error_.message;
    const pulse_graph_value* row = pulse_graph_next(result_);
    EXPECT_NE(row, nullptr) << query;
    return row == nullptr ? kNone.data() : row;
  }
  int64_t Count(std::string_view query) { return Row(query)[0].as.integer; }

  testing_util::ScratchPath path_{"graph-c-api"};
  pulse_graph_options options_;
  pulse_graph* graph_ = nullptr;
  pulse_graph_result* result_ = nullptr;
  std::vector<pulse_graph_result*> results_;
  pulse_graph_error error_;
};

}  // namespace pulse::graph
