// `pulse doctor`: is this machine fit for PulseDB, and what would make it fitter?
#include <algorithm>
#include <iterator>
#include <memory>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "apps/pulse/doctor/check.h"
#include "apps/pulse/util/text_table.h"
#include "base/cpu_list.h"
#include "fmt/format.h"
#include "mover/dsa_copy_engine.h"
#include "nlohmann/json.hpp"
#include "services/redis/offload_choice.h"

namespace pulse {
namespace {

using doctor::Check;
using doctor::Checks;
using doctor::Verdict;

struct DoctorArgs {
  std::string db;
  std::string socket;
  std::string pool;
  std::string graph;
  bool json = false;
};

const char* Word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "FAIL";
  }
  return "?";
}

void PrintTable(const Checks& checks) {
  TextTable table({"", "check", "found"});
  table.AlignLeft(1);
  table.AlignLeft(2);
  for (const Check& c : checks) {
    table.AddRow({Word(c.verdict), c.name, c.found});
    if (!c.remedy.empty()) table.AddRow({"", "", "-> " + c.remedy});
  }
  fmt::print("{}", table.Render(0));
}

void PrintJson(const Checks& checks, bool healthy) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& c : checks) {
    list.push_back({{"check", c.name},
                    {"verdict", c.verdict == Verdict::kFail ? "fail" : Word(c.verdict)},
                    {"found", c.found},
                    {"remedy", c.remedy}});
  }
  const nlohmann::json report = {{"healthy", healthy}, {"checks", list}};
  // A path may hold bytes that are no UTF-8: show them as replacement characters.
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void RunDoctor(const DoctorArgs& args) {
  Checks checks = doctor::CheckSystem();
  const auto add = [&checks](Checks more) {
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  };
  add(doctor::CheckIoUring());
  add(doctor::CheckRocksDb());
  checks.push_back(doctor::Ok("serve: agent in front", redis::DescribeDefaultOffload(MyCpus())));
  add(doctor::CheckServices());
  checks.push_back(doctor::CheckDsa(DsaPaths()));
  add(doctor::CheckPrograms());
  if (!args.db.empty()) {
    add(doctor::CheckDirectory(args.db));
    add(doctor::CheckGuard(args.db));
  }
  if (!args.pool.empty()) add(doctor::CheckPool(args.pool));
  if (!args.graph.empty()) add(doctor::CheckGraph(args.graph));
  if (!args.socket.empty()) add(doctor::CheckAgentSocket(args.socket));
  const bool healthy = std::none_of(checks.begin(), checks.end(),
                                    [](const Check& c) { return c.verdict == Verdict::kFail; });
  if (args.json) {
    PrintJson(checks, healthy);
  } else {
    PrintTable(checks);
  }
  if (!healthy) SetExitCode(1);
}

}  // namespace

void AddDoctorCommand(CLI::App& app) {
  auto args = std::make_shared<DoctorArgs>();
  CLI::App* cmd = app.add_subcommand(
      "doctor", "Check that this machine can run PulseDB, with a remedy for whatever it lacks");
  cmd->add_option("--db", args->db,
                  "Also check this database directory: writable, file system, direct I/O, space")
      ->type_name("DIR");
  cmd->add_option("--pool", args->pool,
                  "Also check this pool (layout=pool): that it opens, its room, direct I/O")
      ->type_name("PATH");
  cmd->add_option("--graph", args->graph,
                  "Also check this directory of a graph database: as --db, and that its manifest "
                  "can be read")
      ->type_name("DIR");
  cmd->add_option("--socket", args->socket,
                  "Also check the agent on this Unix socket: it answers, and would take this host")
      ->type_name("PATH");
  cmd->add_flag("--json", args->json, "Print the findings as JSON");
  cmd->footer(
      "ok: as it should be. warn: works, with less than it could have. FAIL: does not work; the "
      "exit code is 1 then.");
  cmd->callback([args] { RunDoctor(*args); });
}

}  // namespace pulse
