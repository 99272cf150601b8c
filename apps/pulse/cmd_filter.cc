// `pulse filter`: the records of a file or a stream that match.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/output_file.h"
#include "apps/pulse/util/processor_options.h"
#include "apps/pulse/util/progress.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/ops/filter/filter.h"
#include "services/ops/filter/rules_file.h"

namespace pulse {
namespace {

// As grep's.
constexpr int kSelected = 0;
constexpr int kNothing = 1;
constexpr int kError = 2;

struct FilterArgs {
  std::vector<std::string> patterns;
  std::string rules_file;
  std::string input = "-";
  std::string output;
  std::string max_line = "64M";
  std::string max_decompressed;
  ProcessorArgs processors;
  std::string records = "lines";
  std::string input_format;
  std::string compress;
  int level = 1;
  bool count = false;
  bool invert = false;
  bool ignore_case = false;
  bool literal = false;
  bool extract = false;
  bool explain = false;
  bool plain = false;
  bool force = false;
};

absl::StatusOr<std::vector<filter::Rule>> GatherRules(const FilterArgs& args) {
  std::vector<filter::Rule> rules;
  for (size_t i = 0; i < args.patterns.size(); ++i) {
    // As grep does, so that lists of patterns can be given.
    for (const absl::string_view text : absl::StrSplit(args.patterns[i], '\n')) {
      rules.push_back({std::string(text), absl::StrCat("-e, number ", i + 1)});
    }
  }
  if (args.rules_file.empty()) return rules;
  PULSE_ASSIGN_OR_RETURN(const std::vector<filter::Rule> more,
                         filter::ReadRulesFile("--rules", args.rules_file));
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

absl::Status ReadArgs(const FilterArgs& args, filter::RuleSetOptions* rules,
                      filter::FilterOptions* options) {
  if (args.patterns.empty() && args.rules_file.empty()) {
    return absl::InvalidArgumentError("no rules: give them with -e PATTERN or --rules FILE");
  }
  if (args.extract && (args.invert || args.count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--extract prints parts of what matches; it does not go together with ",
                     args.invert ? "--invert" : "--count"));
  }
  if (args.count && !args.compress.empty()) {
    return absl::InvalidArgumentError(
        "--count prints a number, which --compress does not compress");
  }
  options->plain = args.plain;
  if (!args.input_format.empty()) {
    if (args.plain) {
      return absl::InvalidArgumentError(
          "--plain says that the input is not compressed, and --input-format how it is; leave one "
          "of them out");
    }
    const auto format = ops::ParseFormat(args.input_format);
    if (!format.ok()) return OptionError("--input-format", format.status());
    options->input_format = *format;
  }
  if (args.records == "prefixed") {
    rules->records = filter::Records::kPrefixed;
  } else if (args.records != "lines") {
    return absl::InvalidArgumentError(
        absl::StrCat("--records '", args.records, "': expected lines or prefixed"));
  }
  rules->ignore_case = args.ignore_case;
  rules->literal = args.literal;
  options->source.records = rules->records;
  options->selection.invert = args.invert;
  options->selection.select = args.count     ? filter::Select::kCount
                              : args.extract ? filter::Select::kCaptures
                                             : filter::Select::kRecords;
  PULSE_RETURN_IF_ERROR(ReadSize("--max-line", args.max_line, "64M", &options->source.max_record));
  if (options->source.max_record > filter::kMostRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--max-line ", args.max_line, ": at most 1G"));
  }
  options->max_decompressed_option = "--max-decompressed";
  if (!args.max_decompressed.empty()) {
    PULSE_RETURN_IF_ERROR(
        ReadSize("--max-decompressed", args.max_decompressed, "10G", &options->max_decompressed));
  }
  PULSE_ASSIGN_OR_RETURN(options->processors, ReadProcessors(args.processors));
  const auto& host = options->processors.host_cpus;
  rules->threads = host.empty() ? AllowedCpus() : static_cast<int>(host.size());
  options->level = args.level;
  if (args.compress.empty()) return absl::OkStatus();
  const auto format = ops::ParseFormat(args.compress);
  if (!format.ok()) return OptionError("--compress", format.status());
  options->compress = *format;
  return absl::OkStatus();
}

absl::StatusOr<int> RunFilterCommand(const FilterArgs& args) {
  signal(SIGPIPE, SIG_IGN);
  filter::RuleSetOptions rule_options;
  filter::FilterOptions options;
  PULSE_RETURN_IF_ERROR(ReadArgs(args, &rule_options, &options));
  PULSE_ASSIGN_OR_RETURN(std::vector<filter::Rule> rules, GatherRules(args));
  PULSE_ASSIGN_OR_RETURN(const std::unique_ptr<filter::RuleSet> set,
                         filter::RuleSet::Compile(std::move(rules), rule_options));
  if (args.explain) std::fputs(set->Explain().c_str(), stderr);
  UniqueFd input(args.input == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : -1);
  options.source.name = args.input == "-" ? "standard input" : args.input;
  if (args.input != "-") input = OpenFile(args.input, O_RDONLY);
  if (!input.valid()) return ErrnoError(errno, "opening", options.source.name);
  struct stat st {};
  if (fstat(input.get(), &st) != 0) return ErrnoError(errno, "reading", options.source.name);
  OutputFile output;
  PULSE_RETURN_IF_ERROR(output.Open(args.output, args.force, st));
  options.out_name = output.name();
  Progress progress(1);
  const uint64_t total = S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : 0;
  // Where results go to a terminal, a line of progress would stand between them; in a log it would
  // pass for a message.
  if (total > 0 && isatty(STDERR_FILENO) != 0 &&
      (!args.output.empty() || isatty(STDOUT_FILENO) == 0)) {
    options.processors.progress = [&](uint64_t in, uint64_t) {
      progress.Bytes("filtering", in,
                     std::max(in, total));  // of what is compressed, more than that
      return true;
    };
  }
  PULSE_ASSIGN_OR_RETURN(const filter::FilterOutcome outcome,
                         filter::RunFilter(*set, options, input.get(), output.fd()));
  if (outcome.garbage_offset.has_value()) {
    std::fprintf(stderr, "pulse: %s: decompressed; trailing garbage from offset %llu on ignored\n",
                 options.source.name.c_str(),
                 static_cast<unsigned long long>(*outcome.garbage_offset));
  }
  if (args.explain) {
    std::fputs(outcome.Explain().c_str(), stderr);
  }
  if (args.count) {
    const absl::Status status =
        WriteAll(output.fd(), absl::StrCat(outcome.selected, "\n"), "writing", options.out_name);
    if (!status.ok() && ErrnoOf(status) != EPIPE) return status;
  }
  PULSE_RETURN_IF_ERROR(output.Commit(nullptr));
  if (!output.remark().empty()) std::fprintf(stderr, "pulse: %s\n", output.remark().c_str());
  return outcome.selected > 0 ? kSelected : kNothing;
}

}  // namespace

void AddFilterCommand(CLI::App& app) {
  auto args = std::make_shared<FilterArgs>();
  CLI::App* cmd = app.add_subcommand(
      "filter",
      "Print the lines that match any of many rules, on all CPUs, in their order.\n"
      "  pulse filter -e 'timeout|refused' -e 'disk .* failed' app.log\n"
      "Rules are regular expressions in RE2's syntax, for UTF-8. Exits as grep does: 0 if a line\n"
      "was selected, 1 if none was, 2 after an error.");
  cmd->add_option("-e,--regexp", args->patterns, "a rule; may be given many times")
      ->allow_extra_args(false);
  cmd->add_option("--rules", args->rules_file,
                  "a file of rules, one a line; empty lines and lines that begin with # are none");
  cmd->add_option("FILE", args->input, "what is read; - or nothing: standard input");
  cmd->add_flag("-c,--count", args->count, "print only how many records are selected");
  cmd->add_flag("-v,--invert", args->invert, "select the records that do not match");
  cmd->add_flag("-i,--ignore-case", args->ignore_case, "rules ignore the case of letters");
  cmd->add_flag("-F,--literal", args->literal, "rules are texts, not regular expressions");
  cmd->add_flag("--extract", args->extract,
                "print what the first rule that matches captures, with tabs between; all that it\n"
                "matches if it captures nothing");
  cmd->add_option("--records", args->records,
                  "lines, or prefixed: each record has its length in front, 32 bits,\n"
                  "little-endian")
      ->capture_default_str();
  cmd->add_option("--max-line", args->max_line,
                  "the longest record; a longer one is an error (at most 1G)")
      ->capture_default_str();
  cmd->add_option("--max-decompressed", args->max_decompressed,
                  "refuse input that is compressed to more than this, such as 10G; default: no\n"
                  "limit");
  AddProcessorOptions(cmd, &args->processors);
  cmd->add_option("-o,--output", args->output,
                  "write to this file, which has its name once it is complete")
      ->check(NotEmpty);
  cmd->add_flag(
      "--plain", args->plain,
      "the input is not compressed, though it begins as if it were: the length of a first\n"
      "record may look so");
  cmd->add_option(
      "--input-format", args->input_format,
      "what the input is compressed with: gzip, zlib, bgzf, zstd or lz4; anything else\n"
      "is an error. Without it compressed input is recognised, but for zlib's");
  CLI::Option* compress = cmd->add_option("--compress", args->compress,
                                          "compress the output: gzip, zlib, bgzf, zstd or lz4");
  cmd->add_option("--level", args->level, "of --compress, 1 to 9")
      ->check(CLI::Range(1, 9))
      ->capture_default_str()
      ->needs(compress);
  cmd->add_flag("--force", args->force, "replace the output file if it exists");
  cmd->add_flag("--explain", args->explain,
                "say on standard error which engine serves each rule, and what each processor did");
  cmd->callback([args] {
    const absl::StatusOr<int> code = RunFilterCommand(*args);
    Finish(code.status());
    SetExitCode(code.ok() ? *code : kError);
  });
}

}  // namespace pulse
