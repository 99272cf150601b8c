#include "services/lsm/placement/whole_task.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/errors.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/version.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/placement/task_file_system.h"

namespace pulse::lsm {
namespace {

using rocksdb::ColumnFamilyOptions;
using rocksdb::CompactionServiceOptionsOverride;
using rocksdb::DBOptions;

absl::Status NotSupported(absl::string_view why) { return absl::UnimplementedError(why); }

CompactionServiceOptionsOverride OverrideOf(const DBOptions& db,
                                            const ColumnFamilyOptions& family) {
  CompactionServiceOptionsOverride o;
  o.file_checksum_gen_factory = db.file_checksum_gen_factory;
  o.comparator = family.comparator;
  o.merge_operator = family.merge_operator;
  o.compaction_filter = family.compaction_filter;
  o.compaction_filter_factory = family.compaction_filter_factory;
  o.prefix_extractor = family.prefix_extractor;
  o.table_factory = family.table_factory;
  o.sst_partitioner_factory = family.sst_partitioner_factory;
  o.table_properties_collector_factories = family.table_properties_collector_factories;
  return o;
}

bool HasBlobs(const std::vector<std::string>& children) {
  return std::any_of(children.begin(), children.end(),
                     [](const std::string& n) { return absl::EndsWith(n, ".blob"); });
}

// RocksDB opens every table of the database.
absl::Status CheckDescriptors(const std::vector<std::string>& children) {
  const auto tables = static_cast<uint64_t>(
      std::count_if(children.begin(), children.end(),
                    [](const std::string& n) { return absl::EndsWith(n, ".sst"); }));
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || tables <= limit.rlim_cur / 4) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "a whole compaction opens each of the ", tables, " tables, and this process may open ",
      limit.rlim_cur, " files; raise its limit (ulimit -n, LimitNOFILE=)"));
}

// RocksDB tells factories that every remote compaction is manual (asked for by the user), in which
// filters may drop more. These two tell them what it is.
class FilterFactoryWithReason : public rocksdb::CompactionFilterFactory {
 public:
  FilterFactoryWithReason(std::shared_ptr<rocksdb::CompactionFilterFactory> factory, bool manual)
      : factory_(std::move(factory)), manual_(manual) {}
  const char* Name() const override { return factory_->Name(); }
  bool ShouldFilterTableFileCreation(rocksdb::TableFileCreationReason reason) const override {
    return factory_->ShouldFilterTableFileCreation(reason);
  }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) override {
    rocksdb::CompactionFilter::Context corrected = context;
    corrected.is_manual_compaction = manual_;
    return factory_->CreateCompactionFilter(corrected);
  }

 private:
  const std::shared_ptr<rocksdb::CompactionFilterFactory> factory_;
  const bool manual_;
};

class PartitionerFactoryWithReason : public rocksdb::SstPartitionerFactory {
 public:
  PartitionerFactoryWithReason(std::shared_ptr<rocksdb::SstPartitionerFactory> factory, bool manual)
      : factory_(std::move(factory)), manual_(manual) {}
  const char* Name() const override { return factory_->Name(); }
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& context) const override {
    rocksdb::SstPartitioner::Context corrected = context;
    corrected.is_manual_compaction = manual_;
    return factory_->CreatePartitioner(corrected);
  }

 private:
  const std::shared_ptr<rocksdb::SstPartitionerFactory> factory_;
  const bool manual_;
};

void WrapFactories(bool manual, CompactionServiceOptionsOverride* o) {
  if (o->compaction_filter_factory != nullptr) {
    o->compaction_filter_factory =
        std::make_shared<FilterFactoryWithReason>(o->compaction_filter_factory, manual);
  }
  if (o->sst_partitioner_factory != nullptr) {
    o->sst_partitioner_factory =
        std::make_shared<PartitionerFactoryWithReason>(o->sst_partitioner_factory, manual);
  }
}

// From the database's OPTIONS file; RocksDB's registry here must have every object that it names.
absl::StatusOr<CompactionServiceOptionsOverride> LoadObjects(const TaskRequest& request,
                                                             rocksdb::Env* env) {
  rocksdb::ConfigOptions config;
  config.env = env;
  config.ignore_unknown_options = false;
  config.ignore_unsupported_options = false;
  DBOptions db;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  const rocksdb::Status s = rocksdb::LoadLatestOptions(config, request.db, &db, &families);
  if (s.IsIOError() || s.IsPathNotFound()) {
    return absl::UnavailableError(
        absl::StrCat("the OPTIONS file of ", request.db, " cannot be read: ", s.ToString()));
  }
  if (!s.ok()) {
    return NotSupported(absl::StrCat("the agent does not know all that the OPTIONS file of ",
                                     request.db, " names: ", s.ToString(),
                                     "; load what defines it by pulse agent --plugin"));
  }
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const auto& f) { return f.name == request.column_family; });
  if (family == families.end()) {
    return absl::NotFoundError(absl::StrCat("the OPTIONS file of ", request.db,
                                            " has no column family ", request.column_family));
  }
  if (const std::string why = WhyNotOffloadable(db, family->options); !why.empty())
    return NotSupported(why);
  return OverrideOf(db, family->options);
}

}  // namespace

std::string WhyNotOffloadable(const DBOptions& db, const ColumnFamilyOptions& family) {
  // RocksDB's result of a remote compaction names no blob files, of which some would be deleted.
  if (family.enable_blob_files) return "the column family has blob files";
  // The agent would look for the tables in the database's directory.
  if (!db.db_paths.empty() || !family.cf_paths.empty()) {
    return "its tables are in other directories (db_paths, cf_paths)";
  }
  // History is trimmed by a watermark that only the database knows.
  if (family.comparator->timestamp_size() > 0) {
    return "the column family has user-defined timestamps";
  }
  // Only the database knows what is prepared and not committed.
  if (db.allow_2pc) return "the database has two-phase commit";
  // The user's limits on what compactions write are not passed on.
  if (db.rate_limiter != nullptr) return "the database has a rate limiter";
  if (db.sst_file_manager != nullptr) return "the database has an SstFileManager";
  // The result does not say which output is for which level.
  if (family.preclude_last_level_data_seconds > 0) return "preclude_last_level_data_seconds is set";
  if (family.preserve_internal_time_seconds > 0) return "preserve_internal_time_seconds is set";
#if !PULSE_ROCKSDB_AT_LEAST(11, 0)
  // It has neither of these.
  if (db.file_checksum_gen_factory != nullptr) return "the database has file checksums";
  if (family.last_level_temperature != rocksdb::Temperature::kUnknown) {
    return "last_level_temperature is set";
  }
#endif
  return "";
}

TaskFunction RemoteTaskFunction() {
  // RocksDB's globals are made now, before there are threads.
  FileSystem::Default();
  rocksdb::Env::Default();
  return [](const TaskRequest& request, std::atomic<bool>* canceled) {
    return RunCompactionTask(request, canceled);
  };
}

absl::StatusOr<std::string> RunCompactionTask(const TaskRequest& request,
                                              std::atomic<bool>* canceled) {
  struct stat info;
  if (stat(request.db.c_str(), &info) != 0 || info.st_dev != request.device ||
      info.st_ino != request.inode) {
    return NotSupported(
        absl::StrCat("under ", request.db,
                     " the agent does not see the directory that the database does; "
                     "start it where the file systems are the same"));
  }
  if (lstat(request.output_dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::NotFoundError(
        absl::StrCat(request.output_dir, " is no directory; it is for the outputs"));
  }
  const std::string version = rocksdb::GetRocksVersionAsString();
  if (request.version != version) {
    return NotSupported(absl::StrCat("the agent has RocksDB ", version,
                                     ", and the database's process ", request.version,
                                     "; give both the same"));
  }
  const auto fs = NewTaskFileSystem(FileSystem::Default(), request.output_dir);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  std::vector<std::string> children;
  const IOOptions io;
  for (const std::string& dir : {request.db, request.output_dir}) {
    const IOStatus s = fs->GetChildren(dir, io, &children, nullptr);
    if (!s.ok()) {
      return absl::NotFoundError(absl::StrCat(
          "the agent cannot read ", dir, ": ", s.ToString(),
          "; it must see the database's files under the same path as the database does"));
    }
    if (HasBlobs(children)) return NotSupported(absl::StrCat(request.db, " has blob files"));
    if (absl::Status st = CheckDescriptors(children); !st.ok()) return st;
  }
  PULSE_ASSIGN_OR_RETURN(auto objects, LoadObjects(request, env.get()));
  WrapFactories(request.manual, &objects);
  objects.env = env.get();
  rocksdb::OpenAndCompactOptions options;
  options.canceled = canceled;
  std::string result;
  const rocksdb::Status s = rocksdb::DB::OpenAndCompact(options, request.db, request.output_dir,
                                                        request.input, &result, objects);
  if (s.ok()) {
    // Blob files may have been enabled while it began.
    std::vector<std::string> outputs;
    const IOStatus listed = fs->GetChildren(request.output_dir, io, &outputs, nullptr);
    if (!listed.ok()) {
      return absl::InternalError(
          absl::StrCat("listing ", request.output_dir, ": ", listed.ToString()));
    }
    if (HasBlobs(outputs)) return NotSupported("the column family has blob files");
    return result;
  }
  if (canceled->load()) return absl::CancelledError("the compaction was cancelled");
  // RocksDB on the database's side tries by itself, and meets a lasting error again.
  const std::string text = absl::StrCat("compacting ", request.db, ": ", s.ToString());
  if (s.IsNoSpace()) return absl::ResourceExhaustedError(text);  // there may be some soon
  return s.IsNotSupported() ? NotSupported(text) : absl::InternalError(text);
}

}  // namespace pulse::lsm
