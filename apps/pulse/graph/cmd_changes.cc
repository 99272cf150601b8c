// `pulse graph changes`: the commits of a database, as they come.
#include <charconv>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/graph/cmd_load.h"
#include "apps/pulse/graph/result_output.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/stop_signal.h"
#include "services/graph/core/change_feed.h"

namespace pulse {
namespace {

using graph::Change;
using Kind = Change::Kind;
using nlohmann::ordered_json;

struct ChangesArgs {
  std::string db, from;
  bool follow = false, json = false;
};

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kCreateNode:
      return "create_node";
    case Kind::kSetNodeProperties:
      return "set_node";
    case Kind::kAddLabel:
      return "add_label";
    case Kind::kRemoveLabel:
      return "remove_label";
    case Kind::kDeleteNode:
      return "delete_node";
    case Kind::kCreateRelationship:
      return "create_relationship";
    case Kind::kSetRelationshipProperties:
      return "set_relationship";
    case Kind::kDeleteRelationship:
      return "delete_relationship";
    case Kind::kCreateIndex:
      return "create_index";
    case Kind::kDropIndex:
      return "drop_index";
    case Kind::kBulkLoad:
      return "bulk_load";
  }
  return "";
}

bool OfNode(Kind kind) { return kind <= Kind::kDeleteNode; }
bool OfRelationship(Kind kind) {
  return kind >= Kind::kCreateRelationship && kind <= Kind::kDeleteRelationship;
}
bool HasProperties(Kind kind) {
  return kind == Kind::kCreateNode || kind == Kind::kSetNodeProperties ||
         kind == Kind::kCreateRelationship || kind == Kind::kSetRelationshipProperties;
}

ordered_json JsonOf(const Change& change) {
  ordered_json out = {{"op", NameOf(change.kind)}};
  if (OfNode(change.kind)) out["node"] = change.node;
  if (change.kind == Kind::kCreateNode) out["labels"] = change.labels;
  if (change.kind == Kind::kAddLabel || change.kind == Kind::kRemoveLabel) {
    out["label"] = change.labels.front();
  }
  if (OfRelationship(change.kind)) {
    out["relationship"] = change.edge.id;
    out["type"] = change.type;
    out["start"] = change.edge.source;
    out["end"] = change.edge.target;
  }
  if (HasProperties(change.kind)) {
    ordered_json properties = ordered_json::object();
    for (const auto& [key, value] : change.properties)
      properties[key] = ordered_json::parse(StoredJsonText(value));
    out["properties"] = properties;
  }
  if (change.kind == Kind::kCreateIndex || change.kind == Kind::kDropIndex) {
    out["name"] = change.index.name;
  }
  if (change.kind == Kind::kCreateIndex) {
    out[change.index.of_edges ? "type" : "label"] = change.index.label;
    out["keys"] = change.index.keys;
    out["unique"] = change.index.unique;
    out["required"] = change.index.required;
    if (!change.index.type.empty()) out["property_type"] = change.index.type;
  }
  return out;
}

// A line for people; never what a terminal obeys.
std::string TextOf(const Change& change) {
  std::string out = absl::StrCat("  ", NameOf(change.kind));
  if (OfNode(change.kind)) absl::StrAppend(&out, " ", change.node);
  if (OfRelationship(change.kind)) {
    absl::StrAppend(&out, " ", change.edge.id, " (", change.edge.source, ")-[:", change.type,
                    "]->(", change.edge.target, ")");
  }
  for (const std::string& label : change.labels) absl::StrAppend(&out, " :", label);
  for (const auto& [key, value] : change.properties) {
    absl::StrAppend(&out, " ", key, "=", StoredJsonText(value));
  }
  if (!change.index.name.empty()) absl::StrAppend(&out, " ", change.index.name);
  return CleanText(out);
}

void Print(const graph::CommitChanges& commit, bool json) {
  if (json) {
    ordered_json changes = ordered_json::array();
    for (const Change& change : commit.changes) changes.push_back(JsonOf(change));
    const ordered_json line = {{"commit", commit.sequence}, {"changes", changes}};
    std::printf("%s\n", Dump(line).c_str());
    return;
  }
  std::printf("commit %" PRIu64 "\n", commit.sequence);
  for (const Change& change : commit.changes) std::printf("%s\n", TextOf(change).c_str());
}

absl::Status ReadFrom(const std::string& text, graph::ChangeFeedOptions* options) {
  options->from_now = text == "now";
  if (text.empty() || options->from_now) return absl::OkStatus();
  uint64_t after = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), after);
  if (error != std::errc() || end != text.data() + text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--from ", text, ": expected the number of a commit, or now"));
  }
  options->after = after;
  return absl::OkStatus();
}

absl::Status RunChanges(const ChangesArgs& args) {
  graph::ChangeFeedOptions options;
  PULSE_RETURN_IF_ERROR(ReadFrom(args.from, &options));
  std::optional<StopSignal> stop;
  if (args.follow) stop.emplace(StopSignal::OnHangUp::kEnd);
  signal(SIGPIPE, SIG_IGN);
  PULSE_ASSIGN_OR_RETURN(const auto feed, graph::ChangeFeed::Open(args.db, options));
  graph::CommitChanges commit;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const bool more, feed->Next(&commit));
    if (more) {
      Print(commit, args.json);
      if (!args.follow) continue;
      // Who reads goes on from the last line that it has.
      if (std::fflush(stdout) != 0) return absl::OkStatus();
      if (stop->WaitFor(0)) return absl::OkStatus();
      continue;
    }
    if (!args.follow || stop->WaitFor(10)) return absl::OkStatus();
  }
}

}  // namespace

void AddGraphChangesCommand(CLI::App* graph) {
  auto args = std::make_shared<ChangesArgs>();
  CLI::App* cmd = graph->add_subcommand(
      "changes",
      "Print what each commit changed, also beside a process that writes.\n"
      "  pulse graph changes my-graph --from 1200 --follow --json\n"
      "The log has the commits since the last checkpoint; the writer's --keep-log keeps more. A\n"
      "position that is older is an error that says so.");
  cmd->add_option("DB", args->db, "directory of the database")->required();
  cmd->add_option("--from", args->from,
                  "commits after this one; now: after the newest (default: all that the log has)");
  cmd->add_flag("--follow", args->follow, "go on with what is committed, until SIGTERM or SIGINT");
  cmd->add_flag("--json", args->json, "a JSON object for each commit, one a line");
  cmd->callback([args] { Finish(RunChanges(*args)); });
}

}  // namespace pulse
