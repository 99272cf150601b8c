#include "bench/macro/description.h"

#include <algorithm>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Json = nlohmann::json;

std::string NameOf(const Json& option) { return option.at("name").get<std::string>(); }

// As given on the command line: its name, and the one that it had in earlier releases.
std::string NamesOf(const Json& option) {
  const std::string former = option.value("former", "");
  return former.empty() ? NameOf(option) : absl::StrCat(NameOf(option), ",", former);
}

std::string FieldOf(const Json& option) {
  if (option.contains("field")) return option["field"].get<std::string>();
  std::string field = NameOf(option).substr(2);
  std::replace(field.begin(), field.end(), '-', '_');
  return field;
}

template <typename T>
CLI::Option* Bind(CLI::App* cmd, const Json& o, Json* value) {
  return cmd->add_option_function<T>(
      NamesOf(o), [value](const T& given) { *value = given; }, o.at("help").get<std::string>());
}

// A default that is computed later is empty or 0 here.
std::string Shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value == 0 ? "" : value.dump();
  return absl::StrJoin(value, ",", [](std::string* out, const Json& v) { *out += Shown(v); });
}

CLI::Option* AddOption(CLI::App* cmd, const Json& o, Json* value) {
  *value = o.at("default");
  if (value->is_boolean()) {
    return cmd->add_flag_function(
        NameOf(o), [value](int64_t times) { *value = times > 0; }, o.at("help").get<std::string>());
  }
  const bool list = value->is_array(), numbers = o.contains("range");
  CLI::Option* const option = list && numbers ? Bind<std::vector<uint64_t>>(cmd, o, value)
                              : list          ? Bind<std::vector<std::string>>(cmd, o, value)
                              : value->is_number_float() ? Bind<double>(cmd, o, value)
                              : value->is_number()       ? Bind<uint64_t>(cmd, o, value)
                                                         : Bind<std::string>(cmd, o, value);
  if (list) option->delimiter(',');
  if (numbers && o["range"][0].is_number_float()) {
    option->check(CLI::Range(o["range"][0].get<double>(), o["range"][1].get<double>()));
  } else if (numbers) {
    option->check(CLI::Range(o["range"][0].get<int64_t>(), o["range"][1].get<int64_t>()));
  }
  if (o.contains("choices")) {
    option->check(CLI::IsMember(o["choices"].get<std::vector<std::string>>()));
  }
  if (o.contains("type")) option->type_name(o["type"].get<std::string>());
  if (const std::string shown = o.value("shown", Shown(*value)); !shown.empty()) {
    option->default_str(shown);
  }
  return option;
}

// A word in the list of options stands for one of common.json, "common" for the usual ones; an
// object with such a name changes what it says.
std::vector<Json> OptionsOf(const Json& data) {
  std::vector<Json> options;
  const auto add = [&options](const Json& option) {
    const auto same = [&](const Json& o) { return o.at("name") == option.at("name"); };
    const auto it = std::find_if(options.begin(), options.end(), same);
    it == options.end() ? options.push_back(option) : it->update(option);
  };
  for (const Json& o : data.at("options")) {
    for (const Json& c : DataOf("common")) {
      if (o.is_string() ? (o == "common" && c.value("usual", false)) || c.at("name") == o
                        : c.at("name") == o.at("name")) {
        add(c);
      }
    }
    if (o.is_object()) add(o);
  }
  return options;
}

std::string Cell(const Json& column, const Spread& s) {
  if (s.count == 0) return "-";
  const bool range = column.size() > 4 && column[4] == "..";
  if (!range) return Figure(column, s.median);
  Json plain = column;
  plain[4] = "";
  return Figure(plain, s.min) + " .. " + Figure(plain, s.max);
}

}  // namespace

void AddBenchmark(CLI::App& bench, const std::string& name, absl::Status (*run)(BenchArgs)) {
  const Json& data = DataOf(name);
  CLI::App* const cmd = bench.add_subcommand(name, data.at("help").get<std::string>());
  const auto values = std::make_shared<Json>(CommonArgs{});
  const Json common = *values;
  values->update(data.value("presets", Json::object()));
  const auto options = std::make_shared<std::vector<Json>>(OptionsOf(data));
  for (const Json& o : *options) AddOption(cmd, o, &(*values)[FieldOf(o)]);
  for (const Json& o : *options) {
    if (o.contains("excludes")) {
      cmd->get_option(NameOf(o))->excludes(cmd->get_option(o["excludes"].get<std::string>()));
    }
  }
  if (data.contains("footer")) cmd->footer(data["footer"].get<std::string>());
  cmd->callback([=] {
    for (const char* flag : {"quick", "tiny"}) {
      if (!values->value(flag, false)) continue;
      for (const Json& o : *options) {
        if (o.contains(flag) && cmd->count(NameOf(o)) == 0) (*values)[FieldOf(o)] = o[flag];
      }
    }
    BenchArgs args{name, values->get<CommonArgs>(), Json::object()};
    for (const Json& o : *options) {
      if (!common.contains(FieldOf(o))) args.own[FieldOf(o)] = values->at(FieldOf(o));
    }
    Finish(run(std::move(args)));
  });
}

std::vector<Variant> VariantsOf(const Json& data, const Session& session) {
  std::vector<Variant> all;
  for (const Json& o : data.at("variants")) {
    Variant& variant = all.emplace_back();
    variant.name = o[0].get<std::string>();
    variant.meaning = o[1].get<std::string>();
    variant.cpus = o[2] == "both"    ? session.both_cpus()
                   : o[2] == "agent" ? session.agent_cpus()
                                     : session.host_cpus();
  }
  return all;
}

absl::StatusOr<std::vector<Part>> PartsOf(const Json& data, const std::vector<std::string>& names,
                                          const std::vector<Variant>& variants) {
  std::vector<Part> parts;
  std::vector<std::string> known;
  for (const Json& p : data.at("parts")) {
    Part part{p.at("name").get<std::string>(), p, {}};
    known.push_back(part.name);
    if (!names.empty() && std::find(names.begin(), names.end(), part.name) == names.end()) continue;
    for (const Variant& o : variants) {
      const auto is_it = [&](const Json& name) { return name == o.name; };
      if (!p.contains("variants") ||
          std::any_of(p["variants"].begin(), p["variants"].end(), is_it)) {
        part.variants.push_back(o);
      }
    }
    parts.push_back(std::move(part));
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no part \"", name, "\"; choose of ", absl::StrJoin(known, ", ")));
  }
  return parts;
}

int RunsOf(const std::vector<Part>& parts) {
  int runs = 0;
  for (const Part& part : parts) runs += static_cast<int>(part.variants.size());
  return runs;
}

std::string Figure(const Json& column, double value) {
  const double figure = value * (column.size() > 3 ? column[3].get<double>() : 1);
  const int digits = column[2].get<int>();
  return fmt::format("{:.{}f}", figure, digits < 0 ? figure < 100 : digits) +
         (column.size() > 4 ? column[4].get<std::string>() : "");
}

std::string MedianTable(const std::string& title, const Json& columns,
                        const std::vector<Variant>& variants, const RunSet& runs,
                        const std::string& before_name) {
  std::vector<std::string> head = {title};
  for (const Json& column : columns) head.push_back(column[0].get<std::string>());
  TextTable table(head);
  for (const Variant& o : variants) {
    std::vector<std::string> cells = {before_name + o.name};
    for (const Json& c : columns)
      cells.push_back(Cell(c, runs.Of(o.name, c[1].get<std::string>())));
    table.AddRow(std::move(cells));
  }
  return table.Render();
}

std::vector<RatioRow> RatiosOf(const Json& list, const RunSet& runs, bool judged,
                               const std::string& prefix) {
  std::vector<RatioRow> rows;
  for (const Json& r : list) {
    const auto word = [&](size_t i) { return i < r.size() ? r[i].get<std::string>() : ""; };
    const std::string metric = word(1), of = word(2), over = word(3), target = word(4);
    if (!runs.Has(of) || (!over.empty() && !runs.Has(over))) continue;
    const bool added = word(5) == "added";
    rows.push_back({absl::StrCat(prefix, word(0), ", ", of, over.empty() || added ? "" : " / ",
                                 added ? "" : over),
                    over.empty() ? runs.Of(of, metric)
                    : added      ? runs.Difference(of, over, metric)
                                 : runs.Ratio(of, over, metric),
                    {}});
    if (judged && !target.empty()) rows.back().target = ParseTarget(target);
  }
  return rows;
}

absl::Status RunParts(Session* session, const Json& data, const std::vector<Part>& parts,
                      const RunPart& run,
                      const std::function<void(const Part&, const RunSet&)>& done) {
  std::string text = "\n";
  std::vector<RatioRow> rows;
  for (const Part& part : parts) {
    if (part.variants.empty()) continue;
    PULSE_ASSIGN_OR_RETURN(
        const auto runs, session->RunRounds(part.variants, part.name,
                                            [&](const Variant& o, const std::string& label, bool) {
                                              return run(part, o, label);
                                            }));
    if (done) done(part, runs);
    const Json& columns = part.data.contains("columns") ? part.data["columns"] : data.at("columns");
    absl::StrAppend(&text,
                    MedianTable(part.data.at("title").get<std::string>() + " (medians)", columns,
                                part.variants, runs),
                    "\n");
    const bool judged = !session->args().tiny && !part.data.value("busy", false);
    for (const Json& list : part.data.at("ratios")) {
      for (RatioRow& row : RatiosOf(data.at("ratios").at(list.get<std::string>()), runs, judged,
                                    part.data.value("prefix", ""))) {
        rows.push_back(std::move(row));
      }
    }
    session->report()["parts"][part.name] = Section(runs, part.variants);
  }
  session->Say(text + RenderRatios(rows));
  session->report()["ratios"] = ToJson(rows);
  return session->WriteReport();
}

}  // namespace pulse::bench
