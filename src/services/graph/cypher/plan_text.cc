// Plans as EXPLAIN shows them.
#include "services/graph/cypher/plan.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

std::string_view KindName(Step::Kind kind) {
  static constexpr std::string_view kNames[] = {"Scan",
                                                "Expand",
                                                "ExpandVariable",
                                                "QuantifiedPath",
                                                "ShortestPath",
                                                "FromRelationship",
                                                "Filter",
                                                "Path",
                                                "Optional",
                                                "Project",
                                                "Aggregate",
                                                "ScanProperties",
                                                "AggregateColumns",
                                                "Intersect",
                                                "CountPaths",
                                                "Distinct",
                                                "Sort",
                                                "Skip",
                                                "Limit",
                                                "Unwind",
                                                "LoadCsv",
                                                "Procedure",
                                                "Subquery",
                                                "Create",
                                                "Merge",
                                                "Set",
                                                "Delete",
                                                "Foreach",
                                                "Eager",
                                                "Import"};
  return kNames[static_cast<int>(kind)];
}

// A name as one line of the plan shows it.
std::string Shown(const std::string& name) {
  std::string shown;
  for (const char c : name) shown += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return shown;
}

void AppendBranches(const Plan& plan, const Plan& names, const Profile* profile, int indent,
                    std::vector<PlanLine>* out);

void TakeCounts(const Step& step, const Profile& profile, PlanLine* line) {
  const auto it = profile.steps.find(&step);
  line->rows = 0;
  if (it == profile.steps.end()) return;
  line->rows = static_cast<int64_t>(it->second.rows);
  line->reads = it->second.reads;
}

void Append(const Steps& steps, const Plan& names, const Profile* profile, int indent,
            std::vector<PlanLine>* out) {
  const auto name = [&names](int index) { return Shown(names.names[static_cast<size_t>(index)]); };
  for (const Step& step : steps) {
    PlanLine line{indent, std::string(KindName(step.kind)), "", -1, {}};
    std::string& text = line.details;
    if (step.label >= 0) text += " :" + name(step.label);
    for (size_t i = 0; i < step.any_of.size(); ++i)
      text += (i == 0 ? " :" : "|") + name(step.any_of[i]);
    const bool by_table = step.sought_as == Step::Sought::kTable;
    if ((step.kind == Step::Kind::kScan ||
         (step.kind == Step::Kind::kColumns && !step.all_edges)) &&
        step.label < 0 && step.any_of.empty())
      text += step.sought.empty() || by_table ? " all nodes" : " by id";
    const char* const by = by_table                                ? " by table of "
                           : step.kind == Step::Kind::kEdgeColumns ? " "
                                                                   : " by index on ";
    for (size_t i = 0; i < step.keys.size(); ++i) text += (i > 0 ? ", " : by) + name(step.keys[i]);
    if (!step.within.empty()) text += " within bounds of " + name(step.within_key);
    for (size_t i = 0; i < step.types.size(); ++i)
      text += (i == 0 ? " :" : "|") + name(step.types[i]);
    if (step.direction != Direction::kBoth)
      text += step.direction == Direction::kOut ? " out" : " in";
    for (const QuantifiedHop& hop : step.hops) {
      const char* const to = hop.direction == Direction::kOut ? "->" : "-";
      text += hop.direction == Direction::kIn ? " <-" : " -";
      for (size_t i = 0; i < hop.types.size(); ++i)
        text += (i == 0 ? "[:" : "|") + name(hop.types[i]);
      if (!hop.types.empty()) text += "]";
      text += to;
    }
    if (step.into) text += " into bound";
    if (step.kind == Step::Kind::kExpandVar || step.kind == Step::Kind::kQuantified) {
      text += Concat(" *", step.min, "..", step.max < 0 ? std::string() : std::to_string(step.max));
    }
    if (!step.predicates.empty() &&
        (step.kind == Step::Kind::kFilter || step.kind == Step::Kind::kScan ||
         step.kind == Step::Kind::kExpand || step.kind == Step::Kind::kEdgeColumns))
      text += Concat(" (", step.predicates.size(), " predicates)");
    if (!text.empty()) text.erase(0, 1);  // the space before the first
    if (profile != nullptr) TakeCounts(step, *profile, &line);
    out->push_back(std::move(line));
    // The hops of these give no rows.
    const bool counted =
        step.kind != Step::Kind::kCountPaths && step.kind != Step::Kind::kIntersect;
    Append(step.inner, names, counted ? profile : nullptr, indent + 2, out);
    if (step.subplan != nullptr) AppendBranches(*step.subplan, names, profile, indent + 2, out);
  }
}

void AppendBranches(const Plan& plan, const Plan& names, const Profile* profile, int indent,
                    std::vector<PlanLine>* out) {
  for (size_t i = 0; i < plan.branches.size(); ++i) {
    if (i > 0) {
      PlanLine line{indent, "Union", plan.unite.empty() ? "all" : "", -1, {}};
      // One step unites all of them.
      const bool last = i + 1 == plan.branches.size();
      if (last && !plan.unite.empty() && profile != nullptr) {
        TakeCounts(plan.unite[0], *profile, &line);
      }
      out->push_back(std::move(line));
    }
    Append(plan.branches[i].steps, names, profile, indent, out);
  }
}

}  // namespace

ReadCounts Profile::Total() const {
  ReadCounts total;
  for (const auto& [step, counts] : steps) total.Add(counts.reads);
  return total;
}

std::vector<std::pair<std::string_view, uint64_t>> NamedCounts(const ReadCounts& reads) {
  std::vector<std::pair<std::string_view, uint64_t>> out = {
      {"Hits", reads.hits()},
      {"Nodes", reads.nodes},
      {"Seeks", reads.seeks},
      {"Properties", reads.properties},
      {"Chunks", reads.chunks_touched()},
      {"ChunkRecords", reads.chunk_records},
      {"Runs", reads.runs_touched()},
      {"RunRecords", reads.run_records},
      {"RunBytes", reads.run_bytes},
      {"CheckedBytes", reads.checked_bytes},
      {"SkippedSegments", reads.skipped_segments},
      {"PageFaults", reads.page_faults},
      {"SpilledBytes", reads.spilled_bytes}};
  std::erase_if(out, [](const auto& count) { return count.second == 0; });
  return out;
}

std::vector<PlanLine> PlanLines(const Plan& plan, const Profile* profile) {
  std::vector<PlanLine> out;
  AppendBranches(plan, plan, profile, 0, &out);
  return out;
}

std::string PlanText(const Plan& plan, const Profile* profile) {
  std::string out;
  const auto add_counts = [&out](const ReadCounts& reads) {
    for (const auto& [name, count] : NamedCounts(reads)) out += Concat(" ", name, "=", count);
  };
  for (const PlanLine& line : PlanLines(plan, profile)) {
    out += std::string(static_cast<size_t>(line.indent), ' ') + line.name;
    if (!line.details.empty()) out += " " + line.details;
    if (line.rows >= 0) out += Concat(" rows=", line.rows);
    if (line.rows >= 0) add_counts(line.reads);
    out += "\n";
  }
  if (profile == nullptr) return out;
  out += "Total";
  add_counts(profile->Total());
  out += "\n";
  for (const EngineCopies& copies : profile->copied) {
    out += Concat("Copied meanwhile by ", copies.engine, ": ", copies.bytes, " bytes in ",
                  copies.flushes, " flushes and ", copies.merges, " compactions\n");
  }
  return out;
}

}  // namespace pulse::cypher
