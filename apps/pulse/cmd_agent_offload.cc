#include "apps/pulse/cmd_agent_offload.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/sibling_program.h"
#include "services/offload/front_numbers.h"
#include "services/offload/program.h"

namespace pulse {
namespace {

// The agent once had the examples' programs built in, by their names.
std::string ExampleHint(const std::string& name) {
  const std::string object = SiblingProgram(absl::StrCat("../lib/pulse-", name, "-offload.so"));
  if (absl::StrContains(name, "/") || access(object.c_str(), F_OK) != 0) return {};
  return absl::StrCat("; that of the example pulse-", name, " is ", object);
}

}  // namespace

void AddOffloadOptions(CLI::App* cmd, OffloadArgs* args) {
  cmd->add_option("--offload", args->program,
                  "answer remote reads of the store's files as this offload program says (see\n"
                  "pulse/offload.h), by the path of its shared object. Needs --store, --serve and\n"
                  "--serve-host");
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
                                                                   const FrontArgs& front,
                                                                   files::FileStore* store) {
  if (store == nullptr) {
    return absl::InvalidArgumentError(
        "--offload reads files of a store; give it with --store (pulse pool create makes one)");
  }
  const auto listen = FrontOptions(front);
  if (!listen.ok()) return listen.status();
  auto program = offload::LoadProgram(args.program);
  if (!program.ok()) {
    return absl::Status(
        program.status().code(),
        absl::StrCat("--offload: ", program.status().message(), ExampleHint(args.program)));
  }
  offload::EngineOptions options;
  options.program = *program;
  options.store = store;
  options.table_items = args.table_items;
  options.contexts = args.contexts;
  options.copying = args.copying;
  std::unique_ptr<OffloadServer> server(new OffloadServer(args, front));
  auto engine = offload::Engine::Open(options);
  if (!engine.ok()) return engine.status();
  server->engine_ = *std::move(engine);
  return server;
}

absl::Status OffloadServer::Listen() {
  auto front = FrontOptions(front_);
  if (!front.ok()) return front.status();
  director::DirectorOptions options = *std::move(front);
  options.application = engine_.get();
  options.threads = args_.loops;
  // One for each read, and for those whose replies are on their way.
  options.buffers.blocks = 2 * args_.contexts;
  auto director = director::Director::Open(std::move(options));
  if (!director.ok()) return director.status();
  director_ = *std::move(director);
  return absl::OkStatus();
}

FrontStatus OffloadServer::Status() const {
  FrontStatus f = DirectorStatus(*director_, engine_->options().program->name);
  using offload::EngineStats;
  const EngineStats s = engine_->stats();
  f.answered = s[EngineStats::kOffloaded] + s[EngineStats::kAnswered];
  f.to_host = {{"not_offloadable", s[EngineStats::kToHost]},
               {"no_place", s[EngineStats::kNoPlace]},
               {"not_there", s[EngineStats::kNotThere]},
               {"full", s[EngineStats::kFull]},
               {"changed", s[EngineStats::kChanged]},
               {"order", s[EngineStats::kOrder]},
               {"rejected", s[EngineStats::kRejected]},
               {"device", s[EngineStats::kDevice]},
               {"off", s[EngineStats::kOff]}};
  f.numbers = offload::FrontNumbers(s);
  return f;
}

std::string OffloadServer::Describe() const {
  return absl::StrCat("offload ", engine_->options().program->name, " at ", front_.serve.front(),
                      " (port ", director_ == nullptr ? 0 : director_->port(), "), host ",
                      front_.host);
}

}  // namespace pulse
