// pulse-pages: a page server in the manner of a cloud database's: GetPage@LSN.
#include "examples/common/program.h"
#include "examples/pages/load.h"
#include "examples/pages/server.h"

namespace pulse::pages {
namespace {

void AddServe(examples::Program* program, HostOptions* o) {
  CLI::App* cmd =
      program->AddServe("The page server: keeps a log, applies it to pages, answers GetPage@LSN", o,
                        [o] { return HostProgram::Open(*o); });
  cmd->add_option("--log", o->server.log_directory, "directory of the log; created when missing")
      ->required();
  cmd->add_option("--pages", o->server.pages, "of 8 KiB each; twice that on disk")
      ->capture_default_str();
  cmd->add_option("--wait-ms", o->server.wait_ms, "the longest wait for an LSN to be applied")
      ->capture_default_str();
  cmd->add_flag("!--no-warm", o->server.warm,
                "do not write every page once so that the agent knows it");
}

void AddLoad(examples::Program* program, LoadOptions* o) {
  CLI::App* cmd =
      program->AddLoad("Random reads and appends, which are verified; prints rates and latencies",
                       "appends", o, [o] { return RunLoad(*o); });
  cmd->add_option("--threads", o->threads, "each with a connection")->capture_default_str();
  cmd->add_option("--records", o->records, "of an append")->capture_default_str();
  cmd->add_flag("!--no-verify-all", o->verify_all, "do not read all pages at the end");
}

}  // namespace
}  // namespace pulse::pages

int main(int argc, char** argv) {
  pulse::pages::HostOptions host;
  pulse::pages::LoadOptions load;
  pulse::examples::Program program(
      "pages",
      "A page server in the manner of a cloud database's (GetPage@LSN), and a load that\n"
      "verifies and measures it.");
  pulse::pages::AddServe(&program, &host);
  pulse::pages::AddLoad(&program, &load);
  return program.Run(argc, argv);
}
