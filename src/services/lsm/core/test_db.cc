#include "services/lsm/core/test_db.h"

#include <algorithm>

#include "rocksdb/merge_operator.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/object_registry.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::Status;

// Joins operands with a comma.
class JoinOperator : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "pulse.test.Join"; }
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice* existing, const rocksdb::Slice& value,
             std::string* out, rocksdb::Logger*) const override {
    *out = existing == nullptr ? value.ToString() : existing->ToString() + "," + value.ToString();
    return true;
  }
};

// For agents of these tests, which make it by name.
[[maybe_unused]] const bool kRegistered = [] {
  rocksdb::ObjectLibrary::Default()->AddFactory<rocksdb::MergeOperator>(
      "pulse.test.Join",
      [](const std::string&, std::unique_ptr<rocksdb::MergeOperator>* guard, std::string*) {
        *guard = std::make_unique<JoinOperator>();
        return guard->get();
      });
  return true;
}();

std::string KeyOf(uint64_t n) {
  char key[32];
  std::snprintf(key, sizeof(key), "key%08llu", static_cast<unsigned long long>(n));
  return key;
}

}  // namespace

// RocksDB turned its raw DB** results into unique_ptrs: takes whichever this version has.
template <typename Db>
static Status OpenAny(bool read_only, const rocksdb::Options& options, const std::string& path,
                      const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                      std::vector<rocksdb::ColumnFamilyHandle*>* handles, std::unique_ptr<Db>* db) {
  if constexpr (requires { Db::Open(options, path, families, handles, db); }) {
    return read_only ? Db::OpenForReadOnly(options, path, families, handles, db)
                     : Db::Open(options, path, families, handles, db);
  } else {
    Db* raw = nullptr;
    const Status s = read_only ? Db::OpenForReadOnly(options, path, families, handles, &raw)
                               : Db::Open(options, path, families, handles, &raw);
    db->reset(raw);
    return s;
  }
}

rocksdb::Options SmallDbOptions(rocksdb::Env* env) {
  rocksdb::Options o;
  if (env != nullptr) o.env = env;
  o.create_if_missing = true;
  o.create_missing_column_families = true;
  o.compression = rocksdb::kNoCompression;
  o.write_buffer_size = 256 << 10;
  o.target_file_size_base = 96 << 10;
  o.max_bytes_for_level_base = 512 << 10;
  o.level0_file_num_compaction_trigger = 2;
  o.max_background_jobs = 4;
  o.max_subcompactions = 2;
  o.merge_operator = std::make_shared<JoinOperator>();
  o.skip_stats_update_on_db_open = true;
  return o;
}

TestDb::TestDb(rocksdb::Options options, std::string path, std::vector<std::string> families)
    : options_(std::move(options)), path_(std::move(path)) {
  families.push_back(rocksdb::kDefaultColumnFamilyName);
  for (const std::string& f : families) {
    family_options_[f] = options_;
    model_[f];
  }
}

TestDb::~TestDb() { Close(); }

Status TestDb::Open() {
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const auto& [name, o] : family_options_) descriptors.emplace_back(name, o);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  Status s = OpenAny(false, options_, path_, descriptors, &handles, &db_);
  if (!s.ok()) return s;
  for (rocksdb::ColumnFamilyHandle* h : handles) handles_[h->GetName()] = h;
  return s;
}

void TestDb::Close() {
  if (db_ == nullptr) return;
  for (auto& [name, h] : handles_) db_->DestroyColumnFamilyHandle(h).PermitUncheckedError();
  handles_.clear();
  db_->Close().PermitUncheckedError();
  db_.reset();
}

std::vector<std::string> TestDb::families() const {
  std::vector<std::string> names;
  for (const auto& [name, o] : family_options_) names.push_back(name);
  return names;
}

Status TestDb::Put(const std::string& family, const std::string& key, const std::string& value,
                   bool sync) {
  rocksdb::WriteOptions w;
  w.sync = sync;
  Status s = db_->Put(w, handles_.at(family), key, value);
  if (s.ok()) model_[family][key] = value;
  return s;
}

Status TestDb::Delete(const std::string& family, const std::string& key) {
  Status s = db_->Delete(rocksdb::WriteOptions(), handles_.at(family), key);
  if (s.ok()) model_[family].erase(key);
  return s;
}

Status TestDb::DeleteRange(const std::string& family, const std::string& from,
                           const std::string& to) {
  Status s = db_->DeleteRange(rocksdb::WriteOptions(), handles_.at(family), from, to);
  if (s.ok()) {
    auto& keys = model_[family];
    keys.erase(keys.lower_bound(from), keys.lower_bound(to));
  }
  return s;
}

Status TestDb::Merge(const std::string& family, const std::string& key,
                     const std::string& operand) {
  Status s = db_->Merge(rocksdb::WriteOptions(), handles_.at(family), key, operand);
  if (s.ok()) {
    const auto [it, fresh] = model_[family].emplace(key, operand);
    if (!fresh) it->second += "," + operand;
  }
  return s;
}

Status TestDb::Fill(std::mt19937_64* rng, int n, size_t value_size, int key_space) {
  const std::vector<std::string> names = families();
  Status s;
  for (int i = 0; i < n && s.ok(); ++i) {
    s = Put(names[i % names.size()], KeyOf((*rng)() % key_space), RandomBytes(rng, value_size));
  }
  return s;
}

Status TestDb::FlushAll() {
  Status s;
  for (auto& [name, h] : handles_) {
    if (s.ok()) s = db_->Flush(rocksdb::FlushOptions(), h);
  }
  return s;
}

Status TestDb::CompactAll() {
  Status s;
  rocksdb::CompactRangeOptions o;
  o.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  for (auto& [name, h] : handles_) {
    if (s.ok()) s = db_->CompactRange(o, h, nullptr, nullptr);
  }
  return s;
}

std::string TestDb::Difference() {
  for (const auto& [name, keys] : model_) {
    std::unique_ptr<rocksdb::Iterator> it(
        db_->NewIterator(rocksdb::ReadOptions(), handles_.at(name)));
    auto want = keys.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++want) {
      if (want == keys.end()) return name + ": extra key " + it->key().ToString();
      if (it->key() != want->first) {
        return name + ": found key " + it->key().ToString() + ", wanted " + want->first;
      }
      if (it->value() != want->second) return name + ": wrong value of " + want->first;
    }
    if (!it->status().ok()) return name + ": " + it->status().ToString();
    if (want != keys.end()) return name + ": missing key " + want->first;
  }
  return "";
}

std::string DifferenceOnStock(const std::string& path, const Model& model,
                              rocksdb::Options options) {
  options.env = StockEnv() != nullptr ? StockEnv() : rocksdb::Env::Default();
  options.create_if_missing = false;
  options.paranoid_checks = true;
  std::vector<std::string> names;
  for (const auto& [name, keys] : model) names.push_back(name);
  TestDb db(options, path, names);
  db.model() = model;
  Status s = db.Open();
  if (!s.ok()) return "open: " + s.ToString();
  s = db->VerifyChecksum();
  if (!s.ok()) return "checksums: " + s.ToString();
  return db.Difference();
}

std::vector<std::string> LiveFilesOnStock(const std::string& path) {
  rocksdb::Options options = SmallDbOptions(StockEnv());
  options.create_if_missing = false;
  std::vector<std::string> names;
  rocksdb::DB::ListColumnFamilies(options, path, &names).PermitUncheckedError();
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const std::string& n : names) descriptors.emplace_back(n, options);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::DB> db;
  Status s = OpenAny(true, options, path, descriptors, &handles, &db);
  std::vector<std::string> files;
  if (!s.ok()) return {s.ToString()};
  uint64_t manifest_size = 0;
  db->GetLiveFiles(files, &manifest_size, false).PermitUncheckedError();
  for (auto* h : handles) db->DestroyColumnFamilyHandle(h).PermitUncheckedError();
  db.reset();
  std::erase_if(files, [](const std::string& f) {
    return f.find(".sst") == std::string::npos && f.find(".blob") == std::string::npos;
  });
  return files;
}

}  // namespace pulse::lsm::test
