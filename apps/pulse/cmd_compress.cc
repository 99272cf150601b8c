// `pulse compress` and `pulse decompress`: gzip's manners, all processors.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/codec_files.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/processor_options.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "services/ops/compress.h"
#include "services/ops/decompress.h"

namespace pulse {
namespace {

struct CodecArguments {
  std::vector<std::string> files;
  FileChoices choices;
  bool decompress = false;
  bool test = false;
  bool verbose = false;
  bool salvage = false;
  int level = 6;
  std::string format = "gzip";
  std::string codec;
  bool deterministic = false;
  bool primed = false;
  std::string chunk;
  std::string max_output;
  std::string index;
  std::string range;
  ProcessorArgs processors;
};

// Shows how far it is on a terminal, unless the data are written there.
void AddProgress(ops::Processors& processors, std::optional<Progress>& progress,
                 const CodecFiles& files) {
  if (isatty(STDERR_FILENO) == 0 || isatty(files.out()) != 0) return;
  progress.emplace(1);
  processors.progress = [&progress, total = files.input_size()](uint64_t in, uint64_t) {
    progress->Bytes("reading", in, total);
    return true;
  };
}

void SetWarningCode() {
  if (ExitCode() == 0) SetExitCode(2);
}

absl::Status CommitFiles(CodecFiles& files) {
  PULSE_ASSIGN_OR_RETURN(const std::string warning, files.Commit());
  if (warning.empty()) return absl::OkStatus();
  std::fprintf(stderr, "pulse: %s\n", warning.c_str());
  SetWarningCode();
  return absl::OkStatus();
}

absl::Status CompressOne(const CodecArguments& args, const std::string& file,
                         const ops::Processors& processors) {
  ops::CompressOptions options;
  PULSE_ASSIGN_OR_RETURN(options.format, ops::ParseFormat(args.format));
  options.processors = processors;
  options.level = args.level;
  options.deterministic = args.deterministic;
  options.primed = args.primed;
  if (!args.chunk.empty()) {
    PULSE_RETURN_IF_ERROR(ReadSize("--chunk", args.chunk, "512K", &options.chunk_bytes));
  }
  if (!args.codec.empty()) {
    PULSE_ASSIGN_OR_RETURN(options.codec, ops::ParseCodec(args.codec));
  }
  PULSE_ASSIGN_OR_RETURN(
      CodecFiles files, CodecFiles::ForCompression(args.choices, file,
                                                   std::string(ops::FormatSuffix(options.format))));
  options.name = files.base_name();
  options.mtime = files.mtime();
  std::optional<Progress> progress;
  AddProgress(options.processors, progress, files);
  const auto stats =
      ops::Compress(options, files.in(), files.in_name(), files.out(), files.out_name());
  progress.reset();
  if (!stats.ok()) return stats.status();
  PULSE_RETURN_IF_ERROR(CommitFiles(files));
  if (args.verbose) {
    std::fprintf(stderr, "pulse: %s: %s\n", files.in_name().c_str(), stats->Explain().c_str());
  }
  return absl::OkStatus();
}

// OFFSET+BYTES, or OFFSET: to the end.
absl::StatusOr<ops::DataRange> ReadRange(const std::string& text) {
  ops::DataRange range;
  const size_t plus = text.find('+');
  const auto number = [](absl::string_view digits, uint64_t* to) {
    return !digits.empty() && digits.front() != '-' && absl::SimpleAtoi(digits, to);
  };
  const absl::string_view all(text);
  const bool right = number(all.substr(0, plus), &range.begin) &&
                     (plus == std::string::npos || number(all.substr(plus + 1), &range.size));
  if (right) return range;
  return absl::InvalidArgumentError(
      absl::StrCat("--range '", text, "': expected OFFSET or OFFSET+BYTES, such as 1000000+4096"));
}

absl::Status DecompressOne(const CodecArguments& args, const std::string& file,
                           const ops::Processors& processors) {
  ops::DecompressOptions options;
  if (!args.max_output.empty()) {
    PULSE_RETURN_IF_ERROR(ReadSize("--max-output", args.max_output, "10G", &options.max_output));
  }
  FileChoices choices = args.choices;
  options.index = args.index;
  if (!args.index.empty()) choices.keep = true;  // what an index is of
  if (!args.range.empty()) {
    PULSE_ASSIGN_OR_RETURN(options.range, ReadRange(args.range));
    if (!args.test && !choices.to_stdout && choices.output.empty()) {
      return absl::InvalidArgumentError("--range is a part of the file: say where with -c or -o");
    }
  }
  options.processors = processors;
  uint64_t written = 0;
  options.written = &written;
  options.salvage = args.salvage;
  // As gzip does it.
  options.pass_unknown = choices.force && choices.to_stdout && !args.test;
  PULSE_ASSIGN_OR_RETURN(CodecFiles files, args.test ? CodecFiles::ForTest(choices, file)
                                                     : CodecFiles::ForDecompression(choices, file));
  std::optional<Progress> progress;
  AddProgress(options.processors, progress, files);
  const auto report =
      ops::Decompress(options, files.in(), files.in_name(), files.out(), files.out_name());
  progress.reset();
  if (!report.ok()) {
    if (!args.salvage || !absl::IsDataLoss(report.status())) return report.status();
    if (args.test) {
      return absl::DataLossError(
          absl::StrCat(report.status().message(), "; ", written, " bytes before it can be read"));
    }
    PULSE_RETURN_IF_ERROR(files.CommitSalvaged());
    return absl::DataLossError(absl::StrCat(report.status().message(), "; the ", written,
                                            " bytes before it are in ", files.out_name()));
  }
  for (const std::string& remark : report->remarks) {
    std::fprintf(stderr, "pulse: %s\n", remark.c_str());
  }
  if (report->index_failed) SetWarningCode();
  if (report->trailing_garbage) {
    std::fprintf(stderr, "pulse: %s: decompressed; trailing garbage from offset %llu on ignored\n",
                 files.in_name().c_str(), static_cast<unsigned long long>(report->garbage_offset));
    SetWarningCode();
  }
  PULSE_RETURN_IF_ERROR(CommitFiles(files));
  if (args.verbose) {
    std::fprintf(stderr, "pulse: %s: %s\n", files.in_name().c_str(), report->Explain().c_str());
  }
  return absl::OkStatus();
}

void RunCodec(const CodecArguments& args) {
  ops::RateTable rates;
  auto processors = ReadProcessors(args.processors);
  if (!processors.ok()) {
    Finish(processors.status());
    return;
  }
  processors->rates = &rates;
  ops::EngineCache engines;
  processors->engines = &engines;
  std::vector<std::string> files = args.files;
  if (files.empty()) files.emplace_back("-");
  if (files.size() > 1 && !args.choices.output.empty()) {
    Finish(absl::InvalidArgumentError("-o names one output; there are several inputs"));
    return;
  }
  if (args.test && !args.choices.output.empty()) {
    Finish(absl::InvalidArgumentError("-t writes nothing, and -o names an output; leave one out"));
    return;
  }
  if (args.choices.to_stdout && !args.choices.output.empty()) {
    Finish(absl::InvalidArgumentError("-c and -o name two outputs; leave one of them out"));
    return;
  }
  if (!args.decompress &&
      (!args.index.empty() || !args.range.empty() || !args.max_output.empty() || args.salvage)) {
    Finish(absl::InvalidArgumentError(
        "--index, --range, --max-output and --salvage are for decompression"));
    return;
  }
  if (files.size() > 1 && !args.index.empty()) {
    Finish(absl::InvalidArgumentError("--index is of one file; there are several inputs"));
    return;
  }
  for (const std::string& file : files) {
    Finish(args.decompress ? DecompressOne(args, file, *processors)
                           : CompressOne(args, file, *processors));
  }
}

void AddShared(CLI::App* command, CodecArguments& args) {
  command->add_option("FILE", args.files, "Files; none or -: standard input");
  command->add_option("-o,--output", args.choices.output, "Output; the input stays")
      ->check(NotEmpty);
  command->add_flag("-c,--stdout", args.choices.to_stdout,
                    "Write to standard output; the input stays");
  command->add_flag("-k,--keep", args.choices.keep, "Do not remove the input");
  command->add_flag("-f,--force", args.choices.force,
                    "Overwrite the output, follow links, use a terminal");
  command->add_flag("-v,--verbose", args.verbose, "Say what each engine did");
  AddProcessorOptions(command, &args.processors);
  AddEngineOption(command, &args.processors);
  command->add_option("--max-output", args.max_output,
                      "Decompression: refuse more bytes of output, such as 10G; default: no limit");
  command->add_flag("--salvage", args.salvage,
                    "Decompression: keep what is before damage; the exit code is 1 still");
  command->add_flag("-t,--test", args.test, "Decompress and check, write nothing");
  command->add_option("--index", args.index,
                      "Decompression of a gzip file of another program: its index. Written when it "
                      "is not\nthere (with -t it is not); by it, all processors decode. No other "
                      "file is replaced");
  command->add_option(
      "--range", args.range,
      "With --index: only the data from OFFSET on, or OFFSET+BYTES; needs -c, -o or -t");
}

// Without it, -0 would be the name of a file, and -10 the level 1 and such a file.
void RefuseLevel(CLI::App* command, int level, const char* why) {
  const std::string name = absl::StrCat("-", level);
  command
      ->add_flag_callback(
          name, [name, why] { throw CLI::ValidationError(name, why); }, "")
      ->group("");
}

}  // namespace

void AddCompressCommands(CLI::App& app) {
  static CodecArguments compress;
  CLI::App* command = app.add_subcommand(
      "compress", "Compress a file or stream on all processors: gzip, zlib, bgzf, zstd, lz4");
  AddShared(command, compress);
  command->add_flag("-d,--decompress", compress.decompress, "Decompress, as `pulse decompress`");
  command->add_option("--format", compress.format, "gzip, zlib, bgzf, zstd or lz4")
      ->capture_default_str();
  for (int level = ops::kMinLevel; level <= ops::kMaxLevel; ++level) {
    command->add_flag_callback(
        absl::StrCat("-", level), [level] { compress.level = level; },
        level == ops::kMinLevel   ? "Fastest"
        : level == ops::kMaxLevel ? "Smallest"
                                  : "");
  }
  RefuseLevel(command, 0, "levels are -1 to -9");
  command->add_flag("--deterministic", compress.deterministic,
                    "The same bytes on every machine; no name and time");
  command->add_flag(
      "--primed", compress.primed,
      "gzip, zlib: chunks use the data before them; smaller, not decoded in parallel");
  command->add_option("--codec", compress.codec,
                      "isal, zlib, libdeflate, zstd or lz4; default: by level");
  command->add_option("--chunk", compress.chunk,
                      "Size of chunks, such as 512K; default: by format");
  command->callback([] {
    if (compress.test) compress.decompress = true;
    RunCodec(compress);
  });

  static CodecArguments decompress;
  decompress.decompress = true;
  command =
      app.add_subcommand("decompress", "Decompress gzip, zlib, bgzf, zstd or lz4, whichever it is");
  AddShared(command, decompress);
  command->add_flag_callback(
      "-d,--decompress", [] {}, "Changes nothing: for scripts that call gunzip -d");
  for (int level = 0; level <= ops::kMaxLevel; ++level) {
    RefuseLevel(command, level, "decompression has no levels");
  }
  command->callback([] { RunCodec(decompress); });
}

}  // namespace pulse
