// What the parts of db_check share: its flags, reproducible contents, and how it opens a database.
#pragma once

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/transaction_db.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace db_check {

inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kStopped = 3;

struct Flags {
  std::string fs_uri;
  std::string acked;
  bool blob = false;
  bool direct = false;
  bool read_only = false;
  bool transactions = false;
  std::string secondary;  // its own directory
  uint64_t rounds = 1;
  uint64_t first = UINT64_MAX;
  uint64_t write_buffer = 1 << 20;
  uint64_t table_size = 0;  // 0: as write_buffer
};

inline uint64_t SplitMix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// FNV-1a over the bytes, folded into a running value so that order matters.
inline uint64_t Roll(uint64_t hash, std::string_view bytes) {
  for (unsigned char c : bytes) hash = (hash ^ c) * 0x100000001b3ULL;
  return (hash ^ bytes.size()) * 0x100000001b3ULL;
}

inline constexpr uint64_t kHashStart = 0xcbf29ce484222325ULL;

inline std::string KeyOf(uint64_t index) {
  char buf[32];
  snprintf(buf, sizeof(buf), "%016llx", static_cast<unsigned long long>(index));
  return buf;
}

inline std::string ValueOf(uint64_t index, uint64_t size, uint64_t seed) {
  uint64_t state = seed * 0x2545f4914f6cdd1dULL ^ index;
  std::string value(size, '\0');
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = SplitMix(state);
    memcpy(value.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return value;
}

// Prints what failed and gives the exit status.
inline int Fail(const std::string& what) {
  fprintf(stderr, "db_check: %s\n", what.c_str());
  return kFailed;
}

inline int Fail(const std::string& what, const rocksdb::Status& status) {
  return Fail(what + ": " + status.ToString());
}

// Owns the Env made from the URI, so it must outlive every DB opened through it.
class Session {
 public:
  explicit Session(const Flags& flags) : flags_(flags) {}

  rocksdb::Status Prepare() {
    if (flags_.fs_uri.empty()) return rocksdb::Status::OK();
    rocksdb::ConfigOptions config;
    config.ignore_unsupported_options = false;  // an unknown scheme is an error, not a null
    return rocksdb::Env::CreateFromUri(config, "", flags_.fs_uri, &env_, &env_guard_);
  }

  // Small tables and four background jobs: many flushes and compactions side by side.
  rocksdb::Options MakeOptions(bool writing) const {
    rocksdb::Options o;
    o.env = env_;
    o.create_if_missing = writing;
    o.write_buffer_size = flags_.write_buffer;
    o.target_file_size_base = flags_.table_size ? flags_.table_size : flags_.write_buffer;
    o.max_bytes_for_level_base = 4 * flags_.write_buffer;
    o.level0_file_num_compaction_trigger = 2;
    o.max_background_jobs = 4;
    o.max_subcompactions = 2;
    o.compression = rocksdb::kNoCompression;
    o.disable_auto_compactions = !writing;
    o.info_log_level = rocksdb::INFO_LEVEL;
    if (flags_.blob) {
      o.enable_blob_files = true;
      o.min_blob_size = 256;
      o.blob_file_size = 2 * flags_.write_buffer;
      o.enable_blob_garbage_collection = true;
    }
    if (flags_.direct) {
      o.use_direct_reads = true;
      o.use_direct_io_for_flush_and_compaction = true;
    }
    rocksdb::Status s = rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(),
                                                                 "stringappend", &o.merge_operator);
    if (!s.ok()) fprintf(stderr, "db_check: no merge operator: %s\n", s.ToString().c_str());
    return o;
  }

  rocksdb::Status Open(const std::string& path, bool writing, std::unique_ptr<rocksdb::DB>* db) {
    if (flags_.transactions) return OpenTransactions(path, writing, db);
    rocksdb::DB* raw = nullptr;
    rocksdb::Status s;
    if (!flags_.secondary.empty() && !writing) {
      rocksdb::Options o = MakeOptions(writing);
      o.max_open_files = -1;  // of a secondary, RocksDB asks for that
      s = rocksdb::DB::OpenAsSecondary(o, path, flags_.secondary, &raw);
    } else if (flags_.read_only && !writing) {
      s = rocksdb::DB::OpenForReadOnly(MakeOptions(writing), path, &raw);
    } else {
      s = rocksdb::DB::Open(MakeOptions(writing), path, &raw);
    }
    db->reset(raw);
    return s;
  }

  rocksdb::Env* env() const { return env_; }

 private:
  // Both of TransactionDB's forms of Open: with Options to write, with families to read.
  rocksdb::Status OpenTransactions(const std::string& path, bool writing,
                                   std::unique_ptr<rocksdb::DB>* db) {
    const rocksdb::Options options = MakeOptions(writing);
    const rocksdb::TransactionDBOptions locking;
    rocksdb::TransactionDB* raw = nullptr;
    if (writing) {
      rocksdb::Status s = rocksdb::TransactionDB::Open(options, locking, path, &raw);
      db->reset(raw);
      return s;
    }
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::Status s = rocksdb::TransactionDB::Open(
        options, locking, path, {{rocksdb::kDefaultColumnFamilyName, options}}, &handles, &raw);
    db->reset(raw);
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      if (s.ok()) s = raw->DestroyColumnFamilyHandle(handle);
    }
    return s;
  }

  const Flags& flags_;
  std::shared_ptr<rocksdb::Env> env_guard_;
  rocksdb::Env* env_ = rocksdb::Env::Default();
};

}  // namespace db_check
