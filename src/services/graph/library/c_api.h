// What the functions of pulse/graph.h have in common: the objects behind their handles, and how a
// status becomes a code and an error. Any thread; nothing blocks.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "pulse/graph.h"
#include "services/graph/library/c_values.h"
#include "services/graph/library/embedded.h"
#include "services/graph/model/text.h"

struct pulse_graph {
  std::shared_ptr<pulse::graph::EmbeddedGraph> graph;
  std::string temporary;  // a directory to remove; empty: none
};

struct pulse_graph_transaction {
  std::unique_ptr<pulse::graph::EmbeddedTransaction> transaction;
};

struct pulse_graph_result {
  std::shared_ptr<const pulse::graph::ResultTable> table;
  uint64_t next = 0;
  pulse::graph::RowView row;
};

namespace pulse::graph {

// What the structs had in the first release: that much is asked of a caller's, whatever was added
// behind it later. They never change.
#define PULSE_UP_TO(type, member) (offsetof(type, member) + sizeof(type::member))
inline constexpr size_t kLeastError = PULSE_UP_TO(pulse_graph_error, message);
inline constexpr size_t kLeastOptions = PULSE_UP_TO(pulse_graph_options, retain);
inline constexpr size_t kLeastRun = PULSE_UP_TO(pulse_graph_run, interrupted_arg);
inline constexpr size_t kLeastSummary = PULSE_UP_TO(pulse_graph_summary, notice);
inline constexpr size_t kLeastCsv = PULSE_UP_TO(pulse_graph_csv, reject);
inline constexpr size_t kLeastLoaded = PULSE_UP_TO(pulse_graph_loaded, duplicates);
inline constexpr size_t kLeastStats = PULSE_UP_TO(pulse_graph_stats, merges);
#undef PULSE_UP_TO
// A member in the midst of one of them would move these: of 64 bits, which is all that there is.
static_assert(kLeastError == 1136 && kLeastOptions == 56 && kLeastRun == 56 &&
              kLeastSummary == 120 && kLeastCsv == 64 && kLeastLoaded == 56 && kLeastStats == 88);

// Of what a status speaks.
enum class About : uint8_t { kStatement, kSchema, kCommit, kStore, kArguments };

// The code, which `error`, where there is one, is filled with.
int Say(const absl::Status& status, About about, pulse_graph_error* error);

// Calls it; no exception goes to the program.
template <typename Function>
int Guard(About about, pulse_graph_error* error, const Function& function) {
  try {
    return Say(function(), about, error);
  } catch (const std::bad_alloc&) {
    return Say(absl::ResourceExhaustedError("the system refused memory"), about, error);
  } catch (const std::exception& thrown) {
    return Say(absl::InternalError(thrown.what()), about, error);
  }
}

inline absl::Status Missing(std::string_view what) {
  return absl::InvalidArgumentError(cypher::Concat(what, " is NULL"));
}

}  // namespace pulse::graph
