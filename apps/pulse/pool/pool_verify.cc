#include "apps/pulse/pool/pool_verify.h"

#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pulse/rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/utilities/options_util.h"

namespace pulse::pool {
namespace {

absl::Status Failed(const std::string& dir, const std::string& pool, bool has_paths,
                    const rocksdb::Status& s) {
  const std::string text = s.ToString();
  std::string message = absl::StrCat("verifying ", dir, ": ", text);
  if (absl::StrContains(text, "comparator")) {
    absl::StrAppend(&message,
                    "; a database with a comparator of its own can only be read by its own "
                    "program: check it there, and run the command again without --verify");
  } else {
    absl::StrAppend(&message, "; it is in its new layout, and this run has deleted nothing. ",
                    pool.empty() ? "`pulse pool import`" : "`pulse pool export`",
                    " goes back to the other one");
    if (has_paths) {
      absl::StrAppend(&message,
                      ". --verify needs all of db_paths, in their order, and knows no cf_paths");
    }
  }
  return absl::FailedPreconditionError(message);
}

// RocksDB turned its raw DB** results into unique_ptrs: take whichever this version has.
template <typename Db>
rocksdb::Status OpenReadOnly(const rocksdb::DBOptions& options, const std::string& dir,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                             std::unique_ptr<Db>* out) {
  if constexpr (requires { Db::OpenForReadOnly(options, dir, families, handles, out); }) {
    return Db::OpenForReadOnly(options, dir, families, handles, out);
  } else {
    Db* raw = nullptr;
    const rocksdb::Status s = Db::OpenForReadOnly(options, dir, families, handles, &raw);
    out->reset(raw);
    return s;
  }
}

}  // namespace

absl::Status VerifyDatabase(const std::string& dir, const std::vector<std::string>& db_paths,
                            const std::string& pool) {
  std::unique_ptr<rocksdb::Env> own;
  rocksdb::Env* env = rocksdb::Env::Default();
  if (!pool.empty()) {
    std::shared_ptr<rocksdb::FileSystem> fs;
    const rocksdb::Status s =
        NewFileSystem("pulse://?fetch=off&layout=pool&pool=" + pool, nullptr, &fs);
    if (!s.ok()) return Failed(dir, pool, !db_paths.empty(), s);
    own = rocksdb::NewCompositeEnv(fs);
    env = own.get();
  }
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = true;
  config.env = env;
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> described;
  rocksdb::Status s = rocksdb::LoadLatestOptions(config, dir, &options, &described);
  if (!s.ok()) {
    options = rocksdb::DBOptions();
    described.clear();
  }
  std::map<std::string, rocksdb::ColumnFamilyOptions> known;
  for (const auto& family : described) known[family.name] = family.options;
  options.env = env;
  options.create_if_missing = false;
  options.db_paths.clear();
  for (const std::string& path : db_paths) options.db_paths.emplace_back(path, ~uint64_t{0});
  std::vector<std::string> names;
  s = rocksdb::DB::ListColumnFamilies(options, dir, &names);
  if (!s.ok()) return Failed(dir, pool, !db_paths.empty(), s);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, known[name]);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::DB> db;
  s = OpenReadOnly(options, dir, families, &handles, &db);
  if (!s.ok()) return Failed(dir, pool, !db_paths.empty(), s);
  s = db->VerifyChecksum();
  for (rocksdb::ColumnFamilyHandle* h : handles) {
    db->DestroyColumnFamilyHandle(h).PermitUncheckedError();
  }
  return s.ok() ? absl::OkStatus() : Failed(dir, pool, !db_paths.empty(), s);
}

}  // namespace pulse::pool
