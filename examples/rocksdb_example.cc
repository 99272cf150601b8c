// A program that links the plug-in for RocksDB: opens a database on pulse://, fills and compacts
// it, and says how much of that the agent has written. Prints one line; anything else is an error.
//   rocksdb_example DIRECTORY [URI]
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "pulse/rocksdb.h"
#include "pulse/version.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/version.h"

namespace {

// The newest RocksDB opens into a std::unique_ptr.
#if ROCKSDB_MAJOR >= 10
using Opened = std::unique_ptr<rocksdb::DB>;
std::unique_ptr<rocksdb::DB> Take(Opened db) { return db; }
#else
using Opened = rocksdb::DB*;
std::unique_ptr<rocksdb::DB> Take(Opened db) { return std::unique_ptr<rocksdb::DB>(db); }
#endif

rocksdb::Status Run(const std::string& directory, const std::string& uri) {
  rocksdb::Status s = pulse::RegisterRocksDb();  // says so if this RocksDB is of another version
  if (!s.ok()) return s;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;  // a misspelt scheme is an error
  std::shared_ptr<rocksdb::Env> guard;        // outlives the database
  s = rocksdb::Env::CreateFromUri(config, "", uri, &options.env, &guard);
  if (!s.ok()) return s;

  Opened opened{};
  s = rocksdb::DB::Open(options, directory, &opened);
  if (!s.ok()) return s;
  const std::unique_ptr<rocksdb::DB> db = Take(std::move(opened));
  for (int i = 0; s.ok() && i < 20'000; ++i) {
    s = db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), std::string(100, 'v'));
  }
  if (s.ok()) s = db->Flush(rocksdb::FlushOptions());
  if (s.ok()) s = db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr);
  if (s.ok()) s = db->Close();
  if (!s.ok()) return s;

  pulse::Stats stats;
  if (!pulse::GetStats(options.env->GetFileSystem().get(), &stats) || stats.bytes_persisted == 0) {
    return rocksdb::Status::Aborted("the agent has written nothing");
  }
  std::printf("PulseDB %s, RocksDB %s: %llu bytes written by the agent\n", PULSE_VERSION_STRING,
              rocksdb::GetRocksVersionAsString().c_str(),
              static_cast<unsigned long long>(stats.bytes_persisted));
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: rocksdb_example DIRECTORY [URI]\n");
    return 2;
  }
  const rocksdb::Status s = Run(argv[1], argc > 2 ? argv[2] : "pulse://");
  if (s.ok()) return 0;
  std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return 1;
}
