#include "cmd_agent_offload.h"

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "offload/program.h"

namespace pulse {

void AddOffloadOptions(CLI::App* cmd, OffloadArgs* args) {
  cmd->add_option("--offload", args->program,
                  "answer remote reads of the store's files as this offload program says (see\n"
                  "pulse/offload.h): a shared object's path, or the name of a built-in one. Needs\n"
                  "--store, --serve and --serve-host");
  cmd->add_option("--offload-loops", args->loops, "threads that serve its clients")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  cmd->add_option("--offload-items", args->table_items, "items that its cache table has room for")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 30))
      ->capture_default_str();
  cmd->add_option(
         "--offload-reads", args->contexts,
         "reads under way, and buffers of 64 KiB for them, of each loop; beyond that, the\n"
         "host answers")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  cmd->add_flag("--offload-copying", args->copying,
                "copy offloaded data twice more, to compare with");
}

absl::StatusOr<std::unique_ptr<OffloadServer>> OffloadServer::Open(const OffloadArgs& args,
                                                                   files::FileStore* store) {
  if (store == nullptr) {
    return absl::InvalidArgumentError(
        "--offload reads files of a store; give it with --store (pulse pool create makes one)");
  }
  if (args.serve.empty() || args.host.empty()) {
    return absl::InvalidArgumentError(
        "--offload needs --serve [ADDRESS:]PORT, where clients come to, and --serve-host "
        "ADDRESS:PORT or SOCKET, the program that answers what the agent does not");
  }
  auto program = offload::LoadProgram(args.program);
  if (!program.ok()) {
    return absl::Status(program.status().code(),
                        absl::StrCat("--offload: ", program.status().message()));
  }
  offload::EngineOptions options;
  options.program = *program;
  options.store = store;
  options.table_items = args.table_items;
  options.contexts = args.contexts;
  options.copying = args.copying;
  std::unique_ptr<OffloadServer> server(new OffloadServer(args));
  auto engine = offload::Engine::Open(options);
  if (!engine.ok()) return engine.status();
  server->engine_ = *std::move(engine);
  return server;
}

absl::Status OffloadServer::Listen() {
  director::DirectorOptions options;
  options.listen.clear();
  for (const std::string& address : args_.serve) {
    // A port alone is this machine's.
    const bool port = address.find_first_not_of("0123456789") == std::string::npos;
    options.listen.push_back(port ? absl::StrCat("127.0.0.1:", address) : address);
  }
  options.host = args_.host;
  options.application = engine_.get();
  options.threads = args_.loops;
  // One for each read, and for those whose replies are on their way.
  options.buffers.blocks = 2 * args_.contexts;
  auto director = director::Director::Open(std::move(options));
  if (!director.ok()) return director.status();
  director_ = *std::move(director);
  return absl::OkStatus();
}

std::string OffloadServer::Describe() const {
  return absl::StrCat("offload ", engine_->options().program->name, " at ", args_.serve.front(),
                      " (port ", director_ == nullptr ? 0 : director_->port(), "), host ",
                      args_.host);
}

}  // namespace pulse
