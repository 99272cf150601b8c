#include "options/option_table.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/statistics.h"
#include "rocksdb/wal_filter.h"
#include "rocksdb/write_buffer_manager.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::options_test {
namespace {

// Sees each record of the logs when a database is opened, and takes none out.
class SeeAll : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "SeeAll"; }
};

rocksdb::WalFilter* OneWalFilter() {
  static SeeAll filter;
  return &filter;
}

}  // namespace

const std::vector<Setting>& DbSettings() {
  static const std::vector<Setting> settings = {
    PULSE_SET(options.paranoid_checks, false),
    PULSE_SET(options.flush_verify_memtable_count, false),
    PULSE_SET(options.track_and_verify_wals_in_manifest, true),
    PULSE_SET(options.verify_sst_unique_id_in_manifest, false),
    PULSE_SETTING("options.sst_file_manager", "yes",
                  s.options.sst_file_manager.reset(
                      rocksdb::NewSstFileManager(s.options.env, nullptr, "", 1 << 20))),
    PULSE_SETTING("options.rate_limiter", "writes",
                  s.options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(64 << 20))),
    PULSE_SETTING("options.rate_limiter", "all I/O",
                  s.options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(
                      64 << 20, 10'000, 10, rocksdb::RateLimiter::Mode::kAllIo))),
    PULSE_SETTING("options.statistics", "yes",
                  s.options.statistics = rocksdb::CreateDBStatistics()),
    PULSE_SET(options.max_open_files, 20),
    PULSE_SET(options.max_file_opening_threads, 1),
    PULSE_SET(options.max_total_wal_size, 64 << 10),
    PULSE_SET(options.use_fsync, true),
    PULSE_SETTING("options.db_paths", "two",
                  (s.options.db_paths = {{s.dir + "/path_1", 64 << 10},
                                         {s.dir + "/path_2", uint64_t{1} << 40}})),
    PULSE_SETTING("options.db_log_dir", "elsewhere", s.options.db_log_dir = s.dir + "/log"),
    PULSE_SETTING("options.wal_dir", "elsewhere", s.options.wal_dir = s.dir + "/wal"),
    PULSE_SET(options.delete_obsolete_files_period_micros, 0),
    PULSE_SET(options.max_background_jobs, 1),
    PULSE_SET(options.max_subcompactions, 4),
    PULSE_SET(options.max_log_file_size, 8 << 10),
    PULSE_SET(options.log_file_time_to_roll, 1),
    PULSE_SET(options.keep_log_file_num, 1),
    PULSE_SET(options.recycle_log_file_num, 2),
    PULSE_SET(options.max_manifest_file_size, 512),
    PULSE_SET(options.manifest_preallocation_size, 0),
    PULSE_SET(options.WAL_ttl_seconds, 100),
    PULSE_SET(options.WAL_size_limit_MB, 1),
    PULSE_SET(options.allow_mmap_reads, true),
    PULSE_SET(options.allow_mmap_writes, true),
    PULSE_SET(options.use_direct_reads, true),
    PULSE_SET(options.use_direct_io_for_flush_and_compaction, true),
    PULSE_SET(options.allow_fallocate, false),
    PULSE_SET(options.advise_random_on_open, false),
    PULSE_SET(options.db_write_buffer_size, 128 << 10),
    PULSE_SETTING(
        "options.write_buffer_manager", "yes",
        s.options.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(128 << 10)),
    PULSE_SET(options.writable_file_max_buffer_size, 4096),
    PULSE_SET(options.writable_file_max_buffer_size, 100'000),
    PULSE_SET(options.bytes_per_sync, 4096),
    PULSE_SET(options.wal_bytes_per_sync, 4096),
    PULSE_SETTING("options.strict_bytes_per_sync", "true",
                  (s.options.bytes_per_sync = s.options.wal_bytes_per_sync = 8192,
                   s.options.strict_bytes_per_sync = true)),
    PULSE_SET(options.compaction_readahead_size, 0),
    PULSE_SET(options.compaction_readahead_size, 16 << 10),
    PULSE_SET(options.compaction_readahead_size, 4 << 20),
    PULSE_SET(options.log_readahead_size, 64 << 10),
    PULSE_SET(options.enable_pipelined_write, true),
    PULSE_SET(options.unordered_write, true),
    PULSE_SET(options.allow_concurrent_memtable_write, false),
    PULSE_SET(options.two_write_queues, true),
    PULSE_SET(options.manual_wal_flush, true),
    PULSE_SET(options.wal_compression, rocksdb::kZSTD),
    PULSE_SET(options.wal_recovery_mode, rocksdb::WALRecoveryMode::kAbsoluteConsistency),
    PULSE_SET(options.wal_recovery_mode, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords),
    PULSE_SET(options.wal_recovery_mode, rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords),
    PULSE_SET(options.atomic_flush, true),
    PULSE_SET(options.avoid_unnecessary_blocking_io, true),
    PULSE_SET(options.avoid_flush_during_recovery, true),
    PULSE_SET(options.avoid_flush_during_shutdown, true),
    PULSE_SETTING("options.best_efforts_recovery", "true",
                  (s.options.best_efforts_recovery = true, s.flush_before_close = true)),
    PULSE_SET(options.write_dbid_to_manifest, true),
    PULSE_SET(options.db_host_id, "a host"),
    PULSE_SETTING("options.wal_filter", "sees all", s.options.wal_filter = OneWalFilter()),
    PULSE_SETTING("options.file_checksum_gen_factory", "CRC-32C",
                  s.options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory()),
    PULSE_SETTING("options.checksum_handoff_file_types", "all",
                  (s.options.checksum_handoff_file_types.Add(rocksdb::FileType::kTableFile),
                   s.options.checksum_handoff_file_types.Add(rocksdb::FileType::kBlobFile),
                   s.options.checksum_handoff_file_types.Add(rocksdb::FileType::kWalFile),
                   s.options.checksum_handoff_file_types.Add(rocksdb::FileType::kDescriptorFile))),
#if !PULSE_ROCKSDB_AT_LEAST(8, 0)
    PULSE_SET(options.access_hint_on_compaction_start, rocksdb::DBOptions::AccessHint::NONE),
    PULSE_SET(options.access_hint_on_compaction_start, rocksdb::DBOptions::AccessHint::WILLNEED),
    PULSE_SET(options.skip_checking_sst_file_sizes_on_db_open, true),
#endif
#if !PULSE_ROCKSDB_AT_LEAST(11, 0)
    PULSE_SET(options.fail_if_options_file_error, true),
#endif
    PULSE_SET(options.skip_stats_update_on_db_open, false),
    PULSE_SET(options.allow_ingest_behind, true),
    PULSE_SET(options.stats_dump_period_sec, 1),
    PULSE_SETTING("options.persist_stats_to_disk", "true",
                  (s.options.statistics = rocksdb::CreateDBStatistics(),
                   s.options.stats_persist_period_sec = 1, s.options.persist_stats_to_disk = true)),
    PULSE_SETTING("options.row_cache", "yes", s.options.row_cache = rocksdb::NewLRUCache(1 << 16)),
    // Compressed or not, as other settings have it: the threads are started all the same (7.8).
    PULSE_SETTING("pulse.compression", "agent",
                  (s.uri += "&compression=agent", s.options.compression_opts.parallel_threads = 2)),
  };
  return settings;
}

}  // namespace pulse::options_test
