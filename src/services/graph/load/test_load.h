// What tests of loads share: files of their own, and graphs as text.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "base/testing.h"
#include "services/graph/load/load.h"
#include "services/graph/load/transaction_sink.h"
#include "services/graph/model/test_memory_graph.h"

namespace pulse::graph::test {

using cypher::MemoryGraph;

class File {
 public:
  explicit File(const std::string& content) : path_("csv") {
    std::ofstream(path_.get(), std::ios::binary) << content;
  }
  const std::string& path() const { return path_.get(); }

 private:
  testing_util::ScratchPath path_;
};

inline std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline absl::StatusOr<LoadReport> LoadInto(const LoadOptions& options, MemoryGraph* graph) {
  TransactionSink sink(graph);
  return LoadCsv(options, &sink);
}

// A whole graph as text: nodes by their property "id", relationships by those of their ends.
inline std::multiset<std::string> Lines(const MemoryGraph& graph) {
  std::multiset<std::string> lines;
  const auto id_key = graph.FindKey("id");
  const auto name = [&](NodeId node) {
    const auto& properties = graph.nodes().at(node).properties;
    const auto id = id_key ? properties.find(*id_key) : properties.end();
    return id == properties.end() ? "?" : ValueText(id->second, graph);
  };
  for (const auto& [id, node] : graph.nodes()) {
    std::string line;
    std::set<std::string> labels;
    for (const Token label : node.labels) labels.insert(graph.LabelName(label));
    for (const std::string& label : labels) line += ":" + label;
    std::map<std::string, std::string> sorted;
    for (const auto& [key, value] : node.properties) {
      sorted[graph.KeyName(key)] = ValueText(value, graph);
    }
    for (const auto& [key, value] : sorted) line += " " + key + "=" + value;
    lines.insert(line);
  }
  for (const auto& [id, edge] : graph.edges()) {
    std::string line =
        name(edge.ref.source) + "-" + graph.TypeName(edge.ref.type) + "->" + name(edge.ref.target);
    std::map<std::string, std::string> sorted;
    for (const auto& [key, value] : edge.properties) {
      sorted[graph.KeyName(key)] = ValueText(value, graph);
    }
    for (const auto& [key, value] : sorted) line += " " + key + "=" + value;
    lines.insert(line);
  }
  return lines;
}

}  // namespace pulse::graph::test
