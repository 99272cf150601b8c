// Ingests a log into RocksDB with a filter before it: pulse/ops.h matches on all CPUs, and what
// matches becomes one WriteBatch for each piece. The database is on pulse://, so that flushes and
// compactions are written, and with compression=agent also compressed, by an agent. A log that is
// compressed is decompressed on the way.
//
//   ops_rocksdb_example PATTERN DIRECTORY [URI] <app.log.gz     adds to what the database holds
//   ops_rocksdb_example --print DIRECTORY                       by RocksDB alone, without an agent
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "pulse/ops.h"
#include "pulse/rocksdb.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/version.h"
#include "rocksdb/write_batch.h"

namespace {

// The newest RocksDB opens into a std::unique_ptr.
#if ROCKSDB_MAJOR >= 10
using Opened = std::unique_ptr<rocksdb::DB>;
std::unique_ptr<rocksdb::DB> Take(Opened db) { return db; }
#else
using Opened = rocksdb::DB*;
std::unique_ptr<rocksdb::DB> Take(Opened db) { return std::unique_ptr<rocksdb::DB>(db); }
#endif

// Keys are numbers, the first byte the most significant, so that records keep their order.
std::string KeyOf(uint64_t number) {
  std::string key(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8)
    key[static_cast<size_t>(i)] = static_cast<char>(number);
  return key;
}
uint64_t NumberOf(const rocksdb::Slice& key) {
  uint64_t number = 0;
  for (size_t i = 0; i < key.size(); ++i) number = number << 8 | static_cast<uint8_t>(key[i]);
  return number;
}

// Takes the matching lines, in pieces that may end within one.
class RecordWriter {
 public:
  RecordWriter(rocksdb::DB* db, uint64_t next) : db_(db), next_(next) {}

  // For pulse_ops_request::write; one call at a time.
  static int Write(void* arg, const void* data, size_t size) {
    return static_cast<RecordWriter*>(arg)->Add({static_cast<const char*>(data), size});
  }
  const rocksdb::Status& status() const { return status_; }

 private:
  int Add(std::string_view piece) {
    rocksdb::WriteBatch batch;
    size_t begin = 0;
    for (size_t end; (end = piece.find('\n', begin)) != piece.npos; begin = end + 1) {
      rest_ += piece.substr(begin, end - begin);
      if (status_.ok()) status_ = batch.Put(KeyOf(next_++), rest_);
      rest_.clear();
    }
    rest_ += piece.substr(begin);
    if (status_.ok()) status_ = db_->Write(rocksdb::WriteOptions(), &batch);
    return status_.ok() ? 0 : 1;
  }

  rocksdb::DB* const db_;
  uint64_t next_;
  std::string rest_;  // of a line that has not ended
  rocksdb::Status status_;
};

rocksdb::Status Ingest(const char* pattern, RecordWriter* writer, uint64_t* selected) {
  namespace operators = pulse::operators;
  std::string why;
  const operators::Operators ops = operators::Operators::Open(nullptr, &why);
  const operators::Rules rules =
      ops ? operators::Rules::Compile({pattern}, 0, &why) : operators::Rules();
  if (!rules) return rocksdb::Status::InvalidArgument(why);
  operators::Request request(PULSE_OPS_FILTER);
  request.rules = rules.get();
  request.in_fd = STDIN_FILENO;
  request.write = RecordWriter::Write;
  request.write_arg = writer;
  const operators::Result result = ops.Run(request);
  // Of a piece that the database refused, the reason is the database's.
  if (!writer->status().ok()) return writer->status();
  if (!result.ok()) return rocksdb::Status::IOError(result.message());
  *selected = result.raw().selected;
  return rocksdb::Status::OK();
}

rocksdb::Status Fill(const char* pattern, const std::string& directory, const std::string& uri) {
  rocksdb::Status s = pulse::RegisterRocksDb();
  if (!s.ok()) return s;
  rocksdb::Options options;
  options.create_if_missing = true;
  for (const rocksdb::CompressionType type : rocksdb::GetSupportedCompressions()) {
    if (type == rocksdb::kZSTD) options.compression = type;
  }
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;  // a misspelt scheme is an error
  std::shared_ptr<rocksdb::Env> guard;        // outlives the database
  s = rocksdb::Env::CreateFromUri(config, "", uri, &options.env, &guard);
  // What placement=, flushes= and compression= of the URI ask for.
  if (s.ok()) s = pulse::PlaceCompactions(&options);
  Opened opened{};
  if (s.ok()) s = rocksdb::DB::Open(options, directory, &opened);
  if (!s.ok()) return s;
  const std::unique_ptr<rocksdb::DB> db = Take(std::move(opened));

  uint64_t next = 0;
  {
    const std::unique_ptr<rocksdb::Iterator> last(db->NewIterator(rocksdb::ReadOptions()));
    last->SeekToLast();
    if (last->Valid()) next = NumberOf(last->key()) + 1;
    s = last->status();
  }
  RecordWriter writer(db.get(), next);
  uint64_t selected = 0;
  if (s.ok()) s = Ingest(pattern, &writer, &selected);
  if (s.ok()) s = db->Flush(rocksdb::FlushOptions());
  if (s.ok()) s = db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr);
  if (s.ok()) s = db->Close();
  if (!s.ok()) return s;
  pulse::Stats stats;
  if (!pulse::GetStats(options.env->GetFileSystem().get(), &stats)) {
    return rocksdb::Status::Aborted("the database is not on pulse://");
  }
  std::printf("%llu records; %llu bytes written by the agent, which compressed for %llu ms\n",
              static_cast<unsigned long long>(selected),
              static_cast<unsigned long long>(stats.bytes_persisted),
              static_cast<unsigned long long>(stats.agent_compression_nanos / 1'000'000));
  return s;
}

rocksdb::Status Print(const std::string& directory) {
  Opened opened{};
  rocksdb::Status s = rocksdb::DB::OpenForReadOnly(rocksdb::Options(), directory, &opened);
  if (!s.ok()) return s;
  const std::unique_ptr<rocksdb::DB> db = Take(std::move(opened));
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    std::fwrite(it->value().data(), 1, it->value().size(), stdout);
    std::fputc('\n', stdout);
  }
  if (it->status().ok() && std::fflush(stdout) != 0) {
    return rocksdb::Status::IOError("writing standard output failed", std::strerror(errno));
  }
  return it->status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: ops_rocksdb_example PATTERN DIRECTORY [URI] <LOG\n"
                 "       ops_rocksdb_example --print DIRECTORY\n");
    return 2;
  }
  const rocksdb::Status s = std::strcmp(argv[1], "--print") == 0
                                ? Print(argv[2])
                                : Fill(argv[1], argv[2], argc > 3 ? argv[3] : "pulse://");
  if (s.ok()) return 0;
  std::fprintf(stderr, "ops_rocksdb_example: %s\n", s.ToString().c_str());
  return 1;
}
