#include "base/check.h"
#include "options/option_table.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/convenience.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/utilities/table_properties_collectors.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::options_test {
namespace {

void Prefix(Setup& s) { s.options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(5)); }

void Blobs(Setup& s) {
  s.options.enable_blob_files = true;
  if (s.options.min_blob_size == 0) s.options.min_blob_size = 100;
}

// These memtables have one writer at a time.
template <typename Factory>
void Memtable(Setup& s, Factory* factory) {
  s.options.memtable_factory.reset(factory);
  s.options.allow_concurrent_memtable_write = false;
}

// Keeps all, and is asked for each key.
class KeepAll : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "KeepAll"; }
};

class KeepAllFactory : public rocksdb::CompactionFilterFactory {
 public:
  const char* Name() const override { return "KeepAllFactory"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context&) override {
    return std::make_unique<KeepAll>();
  }
};

const rocksdb::CompactionFilter* OneFilter() {
  static const KeepAll filter;
  return &filter;
}

void AppendingMerges(Setup& s) {
  PULSE_CHECK(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend",
                                                       &s.options.merge_operator)
                  .ok());
}

}  // namespace

const std::vector<Setting>& FamilySettings() {
  static const std::vector<Setting> settings = {
    PULSE_SET(options.compression, rocksdb::kSnappyCompression),
    PULSE_SET(options.compression, rocksdb::kLZ4Compression),
    PULSE_SET(options.compression, rocksdb::kZSTD),
    PULSE_SET(options.compression, rocksdb::kZlibCompression),
    PULSE_SETTING(
        "options.compression_opts", "dictionary",
        (s.options.compression = rocksdb::kZSTD, s.options.compression_opts.max_dict_bytes = 4096,
         s.options.compression_opts.zstd_max_train_bytes = 16 << 10)),
    PULSE_SETTING("options.compression_opts", "parallel",
                  (s.options.compression = rocksdb::kLZ4Compression,
                   s.options.compression_opts.parallel_threads = 3)),
    PULSE_SET(options.bottommost_compression, rocksdb::kZSTD),
    PULSE_SETTING("options.bottommost_compression_opts", "dictionary",
                  (s.options.bottommost_compression = rocksdb::kZSTD,
                   s.options.bottommost_compression_opts.enabled = true,
                   s.options.bottommost_compression_opts.max_dict_bytes = 4096)),
    PULSE_SETTING("options.compression_per_level", "none, LZ4, ZSTD",
                  (s.options.compression_per_level = {rocksdb::kNoCompression,
                                                      rocksdb::kLZ4Compression, rocksdb::kZSTD})),
    PULSE_SET(options.sample_for_compression, 2),
    PULSE_SET(options.write_buffer_size, 1 << 20),
    PULSE_SET(options.max_write_buffer_number, 6),
    PULSE_SETTING(
        "options.min_write_buffer_number_to_merge", "2",
        (s.options.max_write_buffer_number = 6, s.options.min_write_buffer_number_to_merge = 2)),
    PULSE_SET(options.max_write_buffer_size_to_maintain, 1 << 20),
    PULSE_SET(options.arena_block_size, 4096),
    PULSE_SETTING("options.memtable_factory", "vector",
                  Memtable(s, new rocksdb::VectorRepFactory())),
    PULSE_SETTING("options.memtable_factory", "hash of skip lists",
                  (Prefix(s), Memtable(s, rocksdb::NewHashSkipListRepFactory(1000)))),
    PULSE_SETTING("options.memtable_factory", "hash of linked lists",
                  (Prefix(s), Memtable(s, rocksdb::NewHashLinkListRepFactory(1000)))),
    PULSE_SETTING("options.memtable_prefix_bloom_size_ratio", "0.1",
                  (Prefix(s), s.options.memtable_prefix_bloom_size_ratio = 0.1)),
    PULSE_SETTING("options.memtable_whole_key_filtering", "true",
                  (s.options.memtable_prefix_bloom_size_ratio = 0.1,
                   s.options.memtable_whole_key_filtering = true)),
    PULSE_SET(options.memtable_protection_bytes_per_key, 8),
    PULSE_SETTING("options.inplace_update_support", "true",
                  (s.options.inplace_update_support = true,
                   s.options.allow_concurrent_memtable_write = false)),
    // Without experimental_mempurge_threshold: with it a manual flush of RocksDB 7.8 waits for
    // ever now and then, with the plug-in and without.
    PULSE_SETTING("options.prefix_extractor", "fixed", Prefix(s)),
    PULSE_SET(options.num_levels, 1),
    PULSE_SET(options.num_levels, 3),
    PULSE_SET(options.level0_file_num_compaction_trigger, 1),
    PULSE_SET(options.level0_file_num_compaction_trigger, 8),
    PULSE_SET(options.level0_slowdown_writes_trigger, 3),
    PULSE_SET(options.target_file_size_base, 4 << 10),
    PULSE_SET(options.target_file_size_base, 4 << 20),
    PULSE_SET(options.target_file_size_multiplier, 2),
    PULSE_SET(options.max_bytes_for_level_base, 32 << 10),
    PULSE_SET(options.max_bytes_for_level_multiplier, 2),
    PULSE_SETTING("options.max_bytes_for_level_multiplier_additional", "2, 3",
                  (s.options.max_bytes_for_level_multiplier_additional = {2, 3, 1, 1, 1, 1, 1})),
    PULSE_SET(options.level_compaction_dynamic_level_bytes, true),
    PULSE_SET(options.max_compaction_bytes, 64 << 10),
    PULSE_SET(options.disable_auto_compactions, true),
    PULSE_SET(options.soft_pending_compaction_bytes_limit, 1 << 10),
    PULSE_SET(options.compaction_pri, rocksdb::kByCompensatedSize),
    PULSE_SET(options.compaction_pri, rocksdb::kOldestLargestSeqFirst),
    PULSE_SET(options.compaction_pri, rocksdb::kRoundRobin),
    PULSE_SET(options.compaction_style, rocksdb::kCompactionStyleUniversal),
    PULSE_SETTING("options.compaction_style", "universal, trivial moves",
                  (s.options.compaction_style = rocksdb::kCompactionStyleUniversal,
                   s.options.compaction_options_universal.allow_trivial_move = true)),
    PULSE_SETTING("options.compaction_style", "universal, incremental",
                  (s.options.compaction_style = rocksdb::kCompactionStyleUniversal,
                   s.options.compaction_options_universal.incremental = true,
                   s.options.compaction_options_universal.size_ratio = 50)),
    PULSE_SETTING("options.compaction_style", "universal, similar sizes",
                  (s.options.compaction_style = rocksdb::kCompactionStyleUniversal,
                   s.options.compaction_options_universal.stop_style =
                       rocksdb::kCompactionStopStyleSimilarSize)),
    PULSE_SET(options.compaction_style, rocksdb::kCompactionStyleFIFO),
    PULSE_SETTING("options.compaction_style", "FIFO, compacting",
                  (s.options.compaction_style = rocksdb::kCompactionStyleFIFO,
                   s.options.compaction_options_fifo.allow_compaction = true)),
    PULSE_SET(options.compaction_style, rocksdb::kCompactionStyleNone),
    PULSE_SET(options.ttl, 3600),
    PULSE_SET(options.periodic_compaction_seconds, 3600),
    PULSE_SET(options.optimize_filters_for_hits, true),
    PULSE_SET(options.paranoid_file_checks, true),
    PULSE_SET(options.force_consistency_checks, false),
    PULSE_SET(options.report_bg_io_stats, true),
    PULSE_SET(options.last_level_temperature, rocksdb::Temperature::kWarm),
#if !PULSE_ROCKSDB_AT_LEAST(8, 0)
    PULSE_SET(options.bottommost_temperature, rocksdb::Temperature::kCold),
#endif
    PULSE_SETTING("options.compaction_filter", "keeps all",
                  s.options.compaction_filter = OneFilter()),
    PULSE_SETTING("options.compaction_filter_factory", "keeps all",
                  s.options.compaction_filter_factory = std::make_shared<KeepAllFactory>()),
    PULSE_SETTING("options.merge_operator", "appends", AppendingMerges(s)),
    PULSE_SETTING("options.preclude_last_level_data_seconds", "100",
                  (s.options.compaction_style = rocksdb::kCompactionStyleUniversal,
                   s.options.preclude_last_level_data_seconds = 100)),
    PULSE_SET(options.preserve_internal_time_seconds, 100),
    PULSE_SETTING(
        "options.sst_partitioner_factory", "fixed prefix",
        s.options.sst_partitioner_factory = rocksdb::NewSstPartitionerFixedPrefixFactory(5)),
    PULSE_SETTING("options.table_properties_collector_factories", "compact on deletion",
                  s.options.table_properties_collector_factories.push_back(
                      rocksdb::NewCompactOnDeletionCollectorFactory(50, 10))),
    PULSE_SETTING(
        "options.cf_paths", "two",
        (s.options.cf_paths = {{s.dir + "/cf_1", 64 << 10}, {s.dir + "/cf_2", uint64_t{1} << 40}})),
    PULSE_SETTING("options.enable_blob_files", "true", Blobs(s)),
    PULSE_SETTING("options.enable_blob_files", "for all values",
                  (Blobs(s), s.options.min_blob_size = 1)),
    PULSE_SETTING("options.blob_file_size", "16 KiB",
                  (Blobs(s), s.options.blob_file_size = 16 << 10)),
    PULSE_SETTING("options.blob_compression_type", "LZ4",
                  (Blobs(s), s.options.blob_compression_type = rocksdb::kLZ4Compression)),
    PULSE_SETTING("options.enable_blob_garbage_collection", "true",
                  (Blobs(s), s.options.enable_blob_garbage_collection = true,
                   s.options.blob_garbage_collection_age_cutoff = 1.0,
                   s.options.blob_garbage_collection_force_threshold = 0.1)),
    PULSE_SETTING("options.blob_compaction_readahead_size", "64 KiB",
                  (Blobs(s), s.options.enable_blob_garbage_collection = true,
                   s.options.blob_compaction_readahead_size = 64 << 10)),
    PULSE_SETTING("options.blob_file_starting_level", "1",
                  (Blobs(s), s.options.blob_file_starting_level = 1)),
    PULSE_SETTING("options.prepopulate_blob_cache", "flush",
                  (Blobs(s), s.options.blob_cache = rocksdb::NewLRUCache(1 << 20),
                   s.options.prepopulate_blob_cache = rocksdb::PrepopulateBlobCache::kFlushOnly)),
  };
  return settings;
}

}  // namespace pulse::options_test
