// `pulse bench kv --part model`: the paper's designs on 8 host and 8 agent cores, from the costs of
// stages that are measured here and from what the paper and the profiles say about hardware. Which
// figure is from where is in data/kv-model.json; none is fitted to the paper's Figures 11 to 13.
//
// "costs" is JSON: by workload and run ("cpu", "lat", ...) the medians of its figures; and
// "transfer_ns". Main thread only.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/kv/model/designs.h"
#include "bench/macro/session.h"
#include "nlohmann/json.hpp"
#include "vdpu/profile.h"

namespace pulse::bench {

// Runs every workload in rounds, or reads the file of --costs.
absl::StatusOr<nlohmann::json> KvCosts(Session* session, const BenchArgs& args);

// As measured.
kvmodel::StageCosts MeasuredCosts(const nlohmann::json& costs, const std::string& workload);
// Get, set and the host's half of lat as measured, and what communicates in the proportion to it of
// the paper's Table 1: on a core of this machine.
kvmodel::StageCosts PaperCosts(const nlohmann::json& costs, const std::string& workload,
                               const std::string& card);
// How many times as long they take on a core of the paper's host.
double PaperHostScale(const nlohmann::json& costs);

// What the model says of this machine's runs, beside them: rows of workload, what, measured, model,
// error_percent.
nlohmann::json ValidateKvModel(const nlohmann::json& costs);

// The names of the designs that a card can run, or of those of them that --designs has; a card
// without a name can run all. InvalidArgument for unknown ones, and for one that it cannot run.
absl::StatusOr<std::vector<std::string>> KvDesignsOn(const std::string& card,
                                                     const BenchArgs& args);

// InvalidArgument for --profiles and --designs that do not go.
absl::Status CheckKvModelArgs(const BenchArgs& args);

// All designs of all cards, and the paper's figures beside them: the report's "model".
absl::StatusOr<nlohmann::json> RunKvModel(const nlohmann::json& costs, const BenchArgs& args);

// Tables for a terminal.
std::string DescribeKvModel(const nlohmann::json& costs, const nlohmann::json& model);

// The whole part.
absl::Status RunKvModelPart(Session* session, const BenchArgs& args);

}  // namespace pulse::bench
