#include "db_check_mixed.h"

#include <rocksdb/slice.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/checkpoint.h>

#include <fstream>
#include <map>
#include <utility>

namespace db_check {
namespace {

using Model = std::map<std::string, std::string>;

// Compares a whole database with a model; empty text means equal.
std::string Difference(rocksdb::DB* db, const Model& model) {
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  auto want = model.begin();
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string key = it->key().ToString();
    if (want == model.end() || key < want->first) return "key that must not exist: " + key;
    if (key > want->first) return "missing key " + want->first;
    if (it->value().ToStringView() != want->second) return "wrong value of key " + key;
    ++want;
  }
  if (!it->status().ok()) return "iterate: " + it->status().ToString();
  if (want != model.end()) return "missing key " + want->first;
  return "";
}

// Runs a seeded sequence of operations on a DB and on a model of it.
class MixedRun {
 public:
  MixedRun(const Flags& flags, std::string path, uint64_t seed)
      : session_(flags), path_(std::move(path)), state_(seed) {}

  int Run(uint64_t ops, const std::string& model_path) {
    if (auto s = session_.Prepare(); !s.ok()) return Fail("file system", s);
    if (auto s = session_.Open(path_, true, &db_); !s.ok()) return Fail("open " + path_, s);
    const uint64_t leg = ops / 4 + 1;
    for (uint64_t op = 0; op < ops; ++op) {
      auto s = Step();
      if (!s.ok()) return Fail("operation " + std::to_string(op) + " (" + what_ + ")", s);
      if (!wrong_.empty()) return Fail("operation " + std::to_string(op) + ": " + wrong_);
      if ((op + 1) % leg == 0) {
        if (auto r = Reopen(); !r.ok()) return Fail("reopen " + path_, r);
        if (auto d = Difference(db_.get(), model_); !d.empty()) return Fail("after reopen: " + d);
      }
    }
    if (auto s = Checkpoint(); !s.ok()) return Fail("checkpoint " + path_ + ".ckpt", s);
    if (auto s = db_->VerifyChecksum(); !s.ok()) return Fail("verify checksums", s);
    if (auto d = Difference(db_.get(), model_); !d.empty()) return Fail(d);
    if (auto s = db_->Close(); !s.ok()) return Fail("close " + path_, s);
    printf("mixed: %zu keys\n", model_.size());
    return WriteModel(model_path);
  }

 private:
  static constexpr uint64_t kKeys = 20000;

  uint64_t Rand(uint64_t below) { return SplitMix(state_) % below; }
  std::string RandomKey() { return KeyOf(Rand(kKeys)); }
  std::string RandomValue() {
    const uint64_t tag = SplitMix(state_);
    return ValueOf(tag, 20 + Rand(Rand(50) == 0 ? 100000 : 1500), tag);
  }

  rocksdb::Status Step() {
    const uint64_t dice = Rand(10000);
    if (dice < 6200) return Put();
    if (dice < 7400) return Delete();
    if (dice < 8400) return Merge();
    if (dice < 9900) return Read();
    if (dice < 9930) return DeleteRange();
    if (dice < 9960) return Flush();
    if (dice < 9980) return Compact();
    return Ingest();
  }

  rocksdb::Status Put() {
    what_ = "put";
    const std::string key = RandomKey();
    return db_->Put(rocksdb::WriteOptions(), key, model_[key] = RandomValue());
  }

  rocksdb::Status Delete() {
    what_ = "delete";
    const std::string key = RandomKey();
    model_.erase(key);
    return db_->Delete(rocksdb::WriteOptions(), key);
  }

  rocksdb::Status Merge() {
    what_ = "merge";
    const std::string key = RandomKey();
    const std::string operand = KeyOf(SplitMix(state_));
    if (auto [at, fresh] = model_.try_emplace(key, operand); !fresh) at->second += "," + operand;
    return db_->Merge(rocksdb::WriteOptions(), key, operand);
  }

  rocksdb::Status Read() {
    what_ = "get";
    const std::string key = RandomKey();
    std::string value;
    auto s = db_->Get(rocksdb::ReadOptions(), key, &value);
    const auto want = model_.find(key);
    if (s.IsNotFound()) {
      if (want != model_.end()) wrong_ = "get lost key " + key;
      return rocksdb::Status::OK();
    }
    if (s.ok() && (want == model_.end() || want->second != value)) {
      wrong_ = "get of key " + key + " returned another value";
    }
    return s;
  }

  rocksdb::Status DeleteRange() {
    what_ = "delete range";
    const uint64_t from = Rand(kKeys);
    const std::string begin = KeyOf(from), end = KeyOf(from + 1 + Rand(200));
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
    return db_->DeleteRange(rocksdb::WriteOptions(), db_->DefaultColumnFamily(), begin, end);
  }

  rocksdb::Status Flush() {
    what_ = "flush";
    return db_->Flush(rocksdb::FlushOptions());
  }

  rocksdb::Status Compact() {
    what_ = "compact range";
    const uint64_t from = Rand(kKeys);
    const std::string begin = KeyOf(from), end = KeyOf(from + kKeys / 4);
    const rocksdb::Slice b(begin), e(end);
    return db_->CompactRange(rocksdb::CompactRangeOptions(), &b, &e);
  }

  rocksdb::Status Ingest() {
    what_ = "ingest";
    const std::string file = path_ + ".ingest.sst";
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), session_.MakeOptions(true));
    if (auto s = writer.Open(file); !s.ok()) return s;
    const uint64_t from = Rand(kKeys);
    for (uint64_t i = 0; i < 100; ++i) {
      const std::string key = KeyOf(from + i);
      if (auto s = writer.Put(key, model_[key] = RandomValue()); !s.ok()) return s;
    }
    if (auto s = writer.Finish(); !s.ok()) return s;
    rocksdb::IngestExternalFileOptions options;
    options.move_files = Rand(2) == 0;
    auto s = db_->IngestExternalFile({file}, options);
    // A moved file may already be gone; only a file that stays can be in the next one's way.
    if (session_.env()->FileExists(file).ok() && s.ok()) s = session_.env()->DeleteFile(file);
    return s;
  }

  rocksdb::Status Reopen() {
    if (auto s = db_->Close(); !s.ok()) return s;
    db_.reset();
    return session_.Open(path_, true, &db_);
  }

  rocksdb::Status Checkpoint() {
    rocksdb::Checkpoint* raw = nullptr;
    if (auto s = rocksdb::Checkpoint::Create(db_.get(), &raw); !s.ok()) return s;
    std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    return checkpoint->CreateCheckpoint(path_ + ".ckpt");
  }

  int WriteModel(const std::string& model_path) const {
    std::ofstream out(model_path);
    for (const auto& [key, value] : model_) {
      out << key << ' ' << value.size() << ' ' << Roll(kHashStart, value) << '\n';
    }
    out.close();
    return out ? 0 : Fail("cannot write " + model_path);
  }

  Session session_;
  const std::string path_;
  uint64_t state_;
  Model model_;
  std::string what_;
  std::string wrong_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

int MixedCommand(const Flags& flags, const std::string& path, uint64_t seed, uint64_t ops,
                 const std::string& model_path) {
  return MixedRun(flags, path, seed).Run(ops, model_path);
}

int MixedVerifyCommand(const Flags& flags, const std::string& path, const std::string& model_path) {
  Session session(flags);
  std::unique_ptr<rocksdb::DB> db;
  if (auto s = session.Prepare(); !s.ok()) return Fail("file system " + flags.fs_uri, s);
  if (auto s = session.Open(path, false, &db); !s.ok()) return Fail("open " + path, s);
  std::ifstream model(model_path);
  if (!model) return Fail("cannot read " + model_path);
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  it->SeekToFirst();
  std::string key, value;
  uint64_t size = 0, hash = 0, count = 0;
  for (; model >> key >> size >> hash; it->Next(), ++count) {
    if (!it->Valid()) {
      if (!it->status().ok()) return Fail("iterate " + path, it->status());
      return Fail("missing key " + key + " and all after it");
    }
    if (it->key() != key) return Fail("found key " + it->key().ToString() + ", wanted " + key);
    if (it->value().size() != size || Roll(kHashStart, it->value().ToStringView()) != hash) {
      return Fail("wrong value of key " + key);
    }
    if (auto s = db->Get(rocksdb::ReadOptions(), key, &value); !s.ok())
      return Fail("get " + key, s);
    if (Roll(kHashStart, value) != hash) return Fail("wrong value from get of key " + key);
  }
  if (it->Valid()) return Fail("key that must not exist: " + it->key().ToString());
  if (!it->status().ok()) return Fail("iterate " + path, it->status());
  it.reset();
  if (auto s = db->VerifyChecksum(); !s.ok()) return Fail("verify checksums of " + path, s);
  if (auto s = db->Close(); !s.ok()) return Fail("close " + path, s);
  printf("mixed-verify: %llu keys\n", static_cast<unsigned long long>(count));
  return 0;
}

}  // namespace db_check
