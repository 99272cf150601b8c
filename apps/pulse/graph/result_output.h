// Results of `pulse graph`: tables for people, a JSON object a row for programs. Main thread only.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "services/graph/session/service.h"

namespace pulse {

class ResultOutput : public cypher::RowSink {
 public:
  // `writes`: the statement does, and so runs to its end also where its result cannot be printed.
  ResultOutput(std::FILE* out, bool json, bool writes, std::vector<std::string> columns)
      : out_(out), json_(json), writes_(writes), columns_(std::move(columns)) {}

  bool OnRows(const cypher::GraphView& view, const cypher::Value* rows, size_t stride, size_t count,
              std::span<const cypher::Slot> columns) override;
  // Until some were printed.
  bool Restart() override;
  // Prints what was kept, and for people what was changed. 0, or the errno of the first write that
  // failed: EPIPE where a reader has had enough.
  int Finish(const cypher::Outcome& outcome);

 private:
  void Print(std::string_view text);
  void PrintTable();

  std::FILE* const out_;
  const bool json_, writes_;
  const std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  size_t kept_bytes_ = 0;      // of rows_
  std::vector<bool> numbers_;  // columns of nothing else
  std::string lines_;          // of JSON
  bool printed_ = false;
  int error_ = 0;
};

// What was changed, for people: "2 nodes created". Empty: nothing.
std::string ChangesText(const cypher::Outcome& outcome);

// A value as JSON: nodes, relationships and paths as objects, dates and durations as ISO 8601 text,
// numbers that JSON has not as text.
nlohmann::ordered_json ToJson(const cypher::Value& value, const cypher::GraphView& view);
std::string JsonText(const cypher::Value& value, const cypher::GraphView& view);
// The same of a value that a property may have: no node is in it.
std::string StoredJsonText(const cypher::Value& value);
// On one line; what is not UTF-8 is replaced.
std::string Dump(const nlohmann::ordered_json& json);

}  // namespace pulse
