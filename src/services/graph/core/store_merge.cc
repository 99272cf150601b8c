// Compaction: which runs, by whom, and what is checked of a run that somebody else has made.
#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/core/store_new_files.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph {

using cypher::Concat;

namespace {

uint64_t MovedBytes(const MergeStats& stats) {
  return stats.bytes_copied + stats.bytes_encoded + stats.column_bytes_copied +
         stats.column_bytes_encoded;
}

}  // namespace

void StoreImpl::CountCopies(const std::string& engine, EngineWork::Kind kind, uint64_t bytes) {
  const std::lock_guard lock(stats_mu_);
  auto& all = stats_.copies;
  auto of =
      std::lower_bound(all.begin(), all.end(), engine,
                       [](const auto& copies, const auto& name) { return copies.engine < name; });
  if (of == all.end() || of->engine != engine) of = all.insert(of, {engine});
  ++(kind == EngineWork::Kind::kMerge ? of->merges : of->flushes);
  of->bytes += bytes;
}

// What somebody else has written, as one who can write to it no more: a run, with as many records
// as he says, and as many as went in but for those that he says were dropped.
absl::Status StoreImpl::CheckMerged(const std::string& name, uint64_t records,
                                    const MergeStats& stats) const {
  if (stats.records_in != records) {
    return absl::UnavailableError(
        Concat("it has merged ", stats.records_in, " records of ", records));
  }
  if (stats.records_out + stats.versions_dropped + stats.tombstones_dropped != records) {
    return absl::UnavailableError(Concat("of ", records, " records it has kept ", stats.records_out,
                                         " and dropped ", stats.versions_dropped, " versions and ",
                                         stats.tombstones_dropped, " tombstones"));
  }
  PULSE_RETURN_IF_ERROR(files_->CheckUnwritten(PathOf(name)));
  absl::StatusOr<RunBytes> bytes = files_->Map(PathOf(name));
  if (!bytes.ok()) return bytes.status();
  const auto run = RunReader::Open(*std::move(bytes));
  if (!run.ok()) return absl::UnavailableError(run.status().message());
  const uint64_t written = (*run)->info().records;
  if (written == stats.records_out) return absl::OkStatus();
  return absl::UnavailableError(
      Concat(name, " has ", written, " records, and not ", stats.records_out));
}

// A compaction by somebody else. Unavailable: do it here.
absl::StatusOr<MergeStats> StoreImpl::MergeElsewhere(std::span<const Run> inputs, MergeJob job,
                                                     Merger* merger, std::string* name) {
  std::vector<UniqueFd> files;
  std::vector<int> descriptors;
  uint64_t records = 0;
  for (const Run& run : inputs) {
    records += run.reader->info().records;
    if (!files_->HasDescriptors()) continue;
    // Nobody but the merger needs it.
    auto file = files_->Descriptor(PathOf(run.file));
    if (!file.ok()) return absl::UnavailableError(file.status().message());
    files.push_back(*std::move(file));
    descriptors.push_back(files.back().get());
  }
  job.files = descriptors;
  NewFiles made(this);
  *name = made.Name(".run");
  absl::StatusOr<MergeStats> merged = absl::UnknownError("");
  {
    PULSE_ASSIGN_OR_RETURN(const auto file, files_->Create(PathOf(*name)));
    RunFile sink(file.get());
    job.sink = &sink;
    job.output = file->descriptor();
    merged = merger->Merge(job);
    // Whoever was asked may still write to the file, whose name is removed.
    if (!merged.ok()) return merged;
    PULSE_RETURN_IF_ERROR(file->Sync());
  }
  PULSE_RETURN_IF_ERROR(CheckMerged(*name, records, *merged));
  made.Keep();
  return merged;
}

absl::StatusOr<MergeStats> StoreImpl::MergeToFile(std::span<const Run> inputs,
                                                  const MergeOptions& options, std::string* name) {
  std::vector<std::shared_ptr<const RunReader>> readers;
  EngineWork work;
  work.in_files = files_->HasDescriptors();
  for (const Run& run : inputs) {
    readers.push_back(run.reader);
    work.bytes += run.reader->info().bytes;
  }
  PULSE_ASSIGN_OR_RETURN(const EngineChoice choice, engines_->Choose(work));
  const Meter meter;
  absl::Status fell_back;
  if (choice.merger != nullptr) {
    MergeJob job;
    job.runs = readers;
    job.options = options;
    absl::StatusOr<MergeStats> merged = MergeElsewhere(inputs, job, choice.merger, name);
    if (merged.ok()) {
      engines_->Report(work, meter.Of(choice, {}));
      CountCopies(choice.name, work.kind, MovedBytes(*merged));
      std::lock_guard lock(stats_mu_);
      ++stats_.merges_elsewhere;
      return merged;
    }
    if (!absl::IsUnavailable(merged.status())) return merged.status();
    fell_back = merged.status();
    Log(LogLevel::kWarn, Concat("graph: ", path_, ": a compaction is done here, and not by ",
                                choice.name, ": ", std::string(fell_back.message())));
    std::lock_guard lock(stats_mu_);
    ++stats_.merges_fallen_back;
  }
  NewFiles made(this);
  *name = made.Name(".run");
  PULSE_ASSIGN_OR_RETURN(const auto file, files_->Create(PathOf(*name)));
  RunFile sink(file.get());
  PULSE_ASSIGN_OR_RETURN(const MergeResult result,
                         MergeRuns(readers, options, choice.engine.get(), &sink));
  PULSE_RETURN_IF_ERROR(file->Sync());
  EngineOutcome outcome = meter.Of(choice, result.stats.copies);
  if (!fell_back.ok()) outcome.fell_back = fell_back;
  engines_->Report(work, outcome);
  CountCopies(fell_back.ok() ? choice.name : "inline", work.kind, MovedBytes(result.stats));
  made.Keep();
  return result.stats;
}

// Runs [first, first + count) of one direction become one, of the next level.
absl::Status StoreImpl::MergeSide(Side side, size_t first, size_t count) {
  std::shared_ptr<const Layers> before;
  {
    std::lock_guard lock(view_mu_);
    before = layers_;
  }
  const std::vector<Run>& runs = before->side(side).runs;
  const auto inputs = std::span(runs).subspan(first, count);
  std::vector<std::string> obsolete;
  int level = 1;
  for (const Run& run : inputs) {
    obsolete.push_back(run.file);
    level = std::max(level, run.level + 1);
  }
  MergeOptions options;
  options.oldest_snapshot = oldest_.load(std::memory_order_acquire);
  options.bottom = first + count == runs.size();
  std::string name;
  PULSE_ASSIGN_OR_RETURN(const MergeStats stats, MergeToFile(inputs, options, &name));
  NewFiles made(this);
  made.Add(name);
  std::optional<Run> merged;
  if (stats.records_out > 0) {
    PULSE_ASSIGN_OR_RETURN(merged, OpenRun({name, side, level}));
  } else {
    obsolete.push_back(name);
  }
  const uint64_t bytes = merged ? merged->reader->info().bytes : 0;
  // Only this thread changes runs.
  auto next = std::make_shared<Layers>(*before);
  auto& list = side == Side::kOut ? next->out.runs : next->in.runs;
  list.erase(list.begin() + static_cast<long>(first),
             list.begin() + static_cast<long>(first + count));
  if (merged) list.insert(list.begin() + static_cast<long>(first), *std::move(merged));
  Manifest manifest = manifest_;
  ListRuns(*next, &manifest);
  PULSE_RETURN_IF_ERROR(WriteManifest(manifest, &made));
  {
    std::lock_guard lock(commit_mu_);
    next->out.chunks = layers_->out.chunks;
    next->in.chunks = layers_->in.chunks;
    InstallLayers(std::move(next));
  }
  RemoveFiles(obsolete);
  std::lock_guard lock(stats_mu_);
  ++stats_.merges;
  stats_.bytes_merged += bytes;
  stats_.merge_bytes_copied += stats.bytes_copied + stats.column_bytes_copied;
  stats_.merge_bytes_encoded += stats.bytes_encoded + stats.column_bytes_encoded;
  return absl::OkStatus();
}

absl::Status StoreImpl::CompactLocked(bool all) {
  for (const Side side : {Side::kOut, Side::kIn}) {
    while (true) {
      std::shared_ptr<const Layers> layers;
      {
        std::lock_guard lock(view_mu_);
        layers = layers_;
      }
      const std::vector<Run>& runs = layers->side(side).runs;
      if (all) {
        const bool clean = runs.empty() || (runs.size() == 1 && !runs[0].hides());
        if (!clean) PULSE_RETURN_IF_ERROR(MergeSide(side, 0, runs.size()));
        break;
      }
      // The newest level that has enough of them; levels ascend.
      size_t first = 0, count = 0;
      for (size_t i = 0; i < runs.size() && count < options_.level_runs; i += count) {
        first = i;
        count = 0;
        while (i + count < runs.size() && runs[i + count].level == runs[i].level) ++count;
      }
      if (count < options_.level_runs) break;
      PULSE_RETURN_IF_ERROR(MergeSide(side, first, count));
    }
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
