// The graph database in one screen of C++: a transaction that is run again where it lost, rows, and
// what a query changed. The contract is in pulse/graph.h.
//
//   graph_example_cxx DIRECTORY
#include <cstdio>
#include <cstdlib>
#include <string>

#include "pulse/graph.h"

using pulse::graphdb::Error;
using pulse::graphdb::Graph;
using pulse::graphdb::Result;

namespace {

[[noreturn]] void Die(const Error& error) {
  std::fprintf(stderr, "graph_example: %s\n", error.message());
  std::exit(1);
}

// Moves money; true: committed, false: another transaction was first, so run it again.
bool Transfer(const Graph& graph, const char* from, const char* to, int amount) {
  Error error;
  auto transaction = graph.Begin(&error);
  if (!transaction) Die(error);
  const Result moved = transaction.Execute(
      "MATCH (a:Account {owner: $from}), (b:Account {owner: $to}) "
      "SET a.balance = a.balance - $amount, b.balance = b.balance + $amount",
      {{"from", from}, {"to", to}, {"amount", amount}});
  if (moved.ok()) error = transaction.Commit();
  const int code = moved.ok() ? error.code() : moved.error().code();
  if (code == PULSE_GRAPH_CONFLICT) return false;
  if (code != PULSE_GRAPH_OK) Die(moved.ok() ? error : moved.error());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: graph_example_cxx DIRECTORY\n");
    return 2;
  }
  Error error;
  const Graph graph = Graph::Open(argv[1], nullptr, &error);
  if (!graph) Die(error);

  const Result made = graph.Execute(
      "UNWIND $owners AS owner MERGE (a:Account {owner: owner}) ON CREATE SET a.balance = 100",
      {{"owners", [] {
          static const pulse_graph_value kOwners[] = {pulse_graph_string("Ann", SIZE_MAX),
                                                      pulse_graph_string("Bob", SIZE_MAX)};
          return pulse_graph_list(kOwners, 2);
        }()}});
  if (!made.ok()) Die(made.error());
  std::printf("%d accounts made\n", static_cast<int>(made.Summary().nodes_created));

  while (!Transfer(graph, "Ann", "Bob", 30)) {
  }
  Result rows = graph.Execute("MATCH (a:Account) RETURN a.owner, a.balance ORDER BY a.owner");
  if (!rows.ok()) Die(rows.error());
  while (rows.Next()) {
    const std::string owner(rows.At(0).as_string());
    std::printf("%s: %d\n", owner.c_str(), static_cast<int>(rows.At(1).as_int()));
  }
  // Writes a checkpoint: the next opening reads no log.
  error = graph.Close();
  if (!error.ok()) Die(error);
}
