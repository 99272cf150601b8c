#include "bench/macro/child_jobs.h"

#include <sys/prctl.h>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "rocksdb/iterator.h"
#include "rocksdb/write_batch.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kLoadBatch = 64;
constexpr size_t kScanReadahead = size_t{2} << 20;

Variant PlainStock() { return StockVariants({}).front(); }

std::string Hex(const Checksum& sum) { return fmt::format("{:016x}", sum.value()); }

}  // namespace

absl::StatusOr<nlohmann::json> RunLoadJob(const nlohmann::json& spec) {
  const auto num = spec.at("num").get<uint64_t>();
  const auto seed = spec.at("seed").get<uint64_t>();
  const bool unique = spec.at("unique_keys").get<bool>();
  const auto shape = spec.at("shape").get<DbShape>();
  PULSE_ASSIGN_OR_RETURN(auto opened,
                         BenchDb::Open(spec.at("dir").get<std::string>(), PlainStock(), shape));
  BenchDb& db = *opened;
  KeyStream keys(unique ? KeyOrder::kUnique : KeyOrder::kRandom, num, seed);
  ValueMaker values(spec.at("value_bytes").get<size_t>(), seed, !shape.compression.empty());
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  for (uint64_t done = 0; done < num;) {
    rocksdb::WriteBatch batch;
    for (uint64_t i = 0; i < kLoadBatch && done < num; ++i, ++done) {
      const uint64_t number = keys.Next();
      const Key key = EncodeKey(number);
      const std::string_view value = values.Make(number, done);
      PULSE_RETURN_IF_ERROR(FromRocks(batch.Put(rocksdb::Slice(key.data(), key.size()),
                                                rocksdb::Slice(value.data(), value.size())),
                                      "filling a write batch"));
    }
    PULSE_RETURN_IF_ERROR(FromRocks(db.db()->Write(write, &batch), "loading the database"));
  }
  PULSE_RETURN_IF_ERROR(FromRocks(db.db()->Flush(rocksdb::FlushOptions()), "flushing the load"));
  PULSE_ASSIGN_OR_RETURN(const auto tables, db.CountTables());
  PULSE_RETURN_IF_ERROR(db.Close());
  return nlohmann::json{{"files", tables.files}, {"entries", tables.entries}};
}

absl::StatusOr<nlohmann::json> RunVerifyJob(const nlohmann::json& spec) {
  const auto dir = spec.at("dir").get<std::string>();
  Variant reader = PlainStock();
  reader.uri = spec.value("pool_uri", "");
  const auto shape = spec.at("shape").get<DbShape>();
  PULSE_ASSIGN_OR_RETURN(auto opened, BenchDb::Open(dir, reader, shape, /*read_only=*/true));
  const ValueMaker values(spec.at("value_bytes").get<size_t>(), spec.at("seed").get<uint64_t>(),
                          !shape.compression.empty());
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  read.readahead_size = kScanReadahead;
  const std::unique_ptr<rocksdb::Iterator> it(opened->db()->NewIterator(read));
  Checksum keys, contents;
  uint64_t entries = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++entries) {
    const std::string_view key(it->key().data(), it->key().size());
    const std::string_view value(it->value().data(), it->value().size());
    const uint64_t number = DecodeKey(key);
    const Key expected = EncodeKey(number);
    if (key != std::string_view(expected.data(), expected.size()) ||
        !values.Matches(number, value)) {
      return absl::DataLossError(
          absl::StrCat("database ", dir, " is wrong: entry ", entries, ", key number ", number,
                       ", does not hold what was written; the file system under test lost data"));
    }
    keys.Add(key);
    contents.Add(key);
    contents.Add(value);
  }
  PULSE_RETURN_IF_ERROR(FromRocks(it->status(), "reading database " + dir + " to the end"));
  return nlohmann::json{{"entries", entries}, {"keys", Hex(keys)}, {"contents", Hex(contents)}};
}

constexpr struct {
  const char* name;
  absl::StatusOr<nlohmann::json> (*run)(const nlohmann::json& spec);
} kJobs[] = {{"load", RunLoadJob},
             {"compaction", RunCompactionJob},
             {"fill", RunFillJob},
             {"verify", RunVerifyJob},
             {"crash-load", RunCrashLoadJob},
             {"crash-open", RunCrashOpenJob},
             {"crash-check", RunCrashCheckJob},
             {"ring", RunRingJob},
             {"kv", RunKvJob},
             {"files-fill", RunFilesFillJob},
             {"files-read", RunFilesReadJob},
             {"blocks-load", RunBlocksLoadJob},
             {"serve", RunServeJob},
             {"director", RunDirectorJob},
             {"graph-log", RunGraphLogJob},
             {"graph-open", RunGraphOpenJob},
             {"ycsb", RunYcsbJob}};

absl::StatusOr<nlohmann::json> RunJob(const std::string& text) {
  const nlohmann::json spec = nlohmann::json::parse(text, nullptr, false);
  prctl(PR_SET_NAME, "pulse-bench");  // exec from /proc/self/exe has left "exe"
  try {
    const std::string job = spec.at("job").get<std::string>();
    for (const auto& [name, run] : kJobs) {
      if (job == name) return run(spec);
    }
    return absl::InvalidArgumentError(absl::StrCat("there is no benchmark job \"", job, "\""));
  } catch (const nlohmann::json::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("the job description is malformed (", e.what(),
                                                   "); it is for the benchmark's own use"));
  }
}

}  // namespace pulse::bench
