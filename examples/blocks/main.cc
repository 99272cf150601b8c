// pulse-blocks: random block I/O over the network, the DDS paper's own benchmark.
#include "absl/strings/str_cat.h"
#include "base/uri_options.h"
#include "examples/blocks/load.h"
#include "examples/blocks/server.h"
#include "examples/common/program.h"

namespace pulse::blocks {
namespace {

struct Arguments {
  examples::HostOptions host;
  LoadOptions load;
  std::string size = "1G";
  std::string engine = "io_uring";
  bool page_cache = false;
};

absl::StatusOr<std::unique_ptr<examples::Host>> Open(Arguments* args) {
  const auto size = ParseBytes(args->size);
  if (!size.ok())
    return absl::InvalidArgumentError(absl::StrCat("--size: ", size.status().message()));
  const auto engine = ParseEngineKind(args->engine);
  if (!engine.ok()) return engine.status();
  args->host.files.file_bytes = *size;
  args->host.files.engine = *engine;
  args->host.files.direct = !args->page_cache;
  return Server::Open(args->host);
}

void AddOptions(examples::Program* program, Arguments* args) {
  CLI::App* serve = program->AddServe(
      "The host program: files in a store, through an agent, or the operating system's",
      &args->host, [args] { return Open(args); });
  serve->add_option("--files", args->host.files.files, "how many, named 0, 1, ...")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  serve->add_option("--size", args->size, "of each; made when missing")->capture_default_str();
  serve->add_option("--engine", args->engine, "for --directory: io_uring or threads")
      ->capture_default_str();
  serve->add_flag("--page-cache", args->page_cache, "for --directory: not past the page cache");

  LoadOptions& o = args->load;
  CLI::App* load = program->AddLoad(
      "Random reads and writes, whose contents are verified; prints rates and latencies", "writes",
      &o, [args] { return RunLoad(args->load); });
  load->add_option("--file", o.file, "its name at the server")->capture_default_str();
  load->add_option("--block", o.block, "bytes of a request")->capture_default_str();
  load->add_option("--batch", o.batch, "requests in a message")->capture_default_str();
  load->add_option("--connections", o.connections)->capture_default_str();
  load->add_option("--rate", o.rate,
                   "requests a second, at fixed times; latencies count from then (0: as fast as "
                   "replies come)")
      ->capture_default_str();
  load->add_flag("--fill", o.fill, "write each block once, and sync, instead");
  load->add_flag("!--no-verify", o.verify, "do not look at what reads bring");
}

}  // namespace
}  // namespace pulse::blocks

int main(int argc, char** argv) {
  pulse::blocks::Arguments args;
  pulse::examples::Program program(
      "blocks",
      "Random block I/O over the network: a server of files, and a load that measures it.");
  pulse::blocks::AddOptions(&program, &args);
  return program.Run(argc, argv);
}
