#include "lsm/whole_task.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lsm/task_file_system.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/utilities/options_util.h"

namespace pulse::lsm {
namespace {

using rocksdb::ColumnFamilyOptions;
using rocksdb::CompactionServiceOptionsOverride;
using rocksdb::DBOptions;

absl::Status Never(absl::string_view why) { return absl::UnimplementedError(why); }

// From the database's OPTIONS file; whatever it names must be known here.
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
    return Never(absl::StrCat("the agent does not know all that the OPTIONS file of ", request.db,
                              " names: ", s.ToString(),
                              "; load what defines it by pulse agent --plugin"));
  }
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const auto& f) { return f.name == request.column_family; });
  if (family == families.end()) {
    return absl::NotFoundError(absl::StrCat("the OPTIONS file of ", request.db,
                                            " has no column family ", request.column_family));
  }
  if (const std::string why = WhyNotWhole(db, family->options); !why.empty()) return Never(why);
  return ObjectsOf(db, family->options);
}

}  // namespace

CompactionServiceOptionsOverride ObjectsOf(const DBOptions& db, const ColumnFamilyOptions& family) {
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

std::string WhyNotWhole(const DBOptions& db, const ColumnFamilyOptions& family) {
  // RocksDB's result of a remote compaction names no blob files, of which some would be deleted.
  if (family.enable_blob_files) return "the column family has blob files";
  // The agent would look for the tables in the database's directory.
  if (!db.db_paths.empty() || !family.cf_paths.empty()) {
    return "its tables are in other directories (db_paths, cf_paths)";
  }
  // History is trimmed by what only the database knows.
  if (family.comparator->timestamp_size() > 0) {
    return "the column family has user-defined timestamps";
  }
  // What is prepared and not committed is known to the database alone.
  if (db.allow_2pc) return "the database has two-phase commit";
  return "";
}

TaskFunction RemoteTaskFunction() {
  // RocksDB's globals are made now, before there are threads.
  rocksdb::FileSystem::Default();
  rocksdb::Env::Default();
  return [](const TaskRequest& request, std::atomic<bool>* canceled) {
    return RunWholeTask(request, nullptr, canceled);
  };
}

absl::StatusOr<std::string> RunWholeTask(const TaskRequest& request, const TaskObjects* local,
                                         std::atomic<bool>* canceled) {
  struct stat info;
  if (stat(request.db.c_str(), &info) != 0 || info.st_dev != request.device ||
      info.st_ino != request.inode) {
    return Never(absl::StrCat("under ", request.db,
                              " the agent does not see the directory that the database does; "
                              "start it where the file systems are the same"));
  }
  const auto fs = std::make_shared<TaskFileSystem>(
      local != nullptr ? local->fs : rocksdb::FileSystem::Default(), request.output_dir);
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  std::vector<std::string> children;
  const rocksdb::IOOptions io;
  for (const std::string& dir : {request.db, request.output_dir}) {
    const rocksdb::IOStatus s = fs->GetChildren(dir, io, &children, nullptr);
    if (!s.ok()) {
      return absl::NotFoundError(absl::StrCat(
          "the agent cannot read ", dir, ": ", s.ToString(),
          "; it must see the database's files under the same path as the database does"));
    }
    if (std::any_of(children.begin(), children.end(),
                    [](const std::string& n) { return absl::EndsWith(n, ".blob"); })) {
      return Never(absl::StrCat(request.db, " has blob files"));
    }
  }
  CompactionServiceOptionsOverride objects;
  if (local != nullptr) {
    objects = local->objects;
  } else {
    auto loaded = LoadObjects(request, env.get());
    if (!loaded.ok()) return loaded.status();
    objects = *std::move(loaded);
  }
  objects.env = env.get();
  rocksdb::OpenAndCompactOptions options;
  options.canceled = canceled;
  std::string result;
  const rocksdb::Status s = rocksdb::DB::OpenAndCompact(options, request.db, request.output_dir,
                                                        request.input, &result, objects);
  if (s.ok()) return result;
  if (canceled->load()) return absl::CancelledError("the compaction was cancelled");
  // RocksDB on the database's side tries by itself, and meets a lasting error again.
  const std::string text = absl::StrCat("compacting ", request.db, ": ", s.ToString());
  return s.IsNotSupported() ? Never(text) : absl::InternalError(text);
}

}  // namespace pulse::lsm
