#include <utility>

#include "base/check.h"
#include "options/option_table.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/flush_block_policy.h"
#include "rocksdb/persistent_cache.h"
#include "rocksdb/slice_transform.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::options_test {
namespace {

using Table = rocksdb::BlockBasedTableOptions;

void NeedPrefix(Setup& s) {
  if (s.options.prefix_extractor == nullptr) {
    s.options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(5));
  }
}

void NeedFilter(Setup& s) {
  if (s.table.filter_policy == nullptr) {
    s.table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  }
}

// As many blocks as there can be: each ends after one key.
class BlockOfOneKey : public rocksdb::FlushBlockPolicyFactory {
 public:
  const char* Name() const override { return "BlockOfOneKey"; }
  rocksdb::FlushBlockPolicy* NewFlushBlockPolicy(const rocksdb::BlockBasedTableOptions&,
                                                 const rocksdb::BlockBuilder&) const override {
    return new Policy;
  }

 private:
  class Policy : public rocksdb::FlushBlockPolicy {
   public:
    bool Update(const rocksdb::Slice&, const rocksdb::Slice&) override {
      return std::exchange(has_key_, true);
    }

   private:
    bool has_key_ = false;
  };
};

// Its files are written by way of the same file system. It takes no less than one of its files may
// have, 100 MiB.
void PersistentCache(Setup& s) {
  const rocksdb::Status made =
      rocksdb::NewPersistentCache(s.options.env, s.dir + "/cache", 128 << 20, nullptr,
                                  /*optimized_for_nvm=*/false, &s.table.persistent_cache);
  PULSE_CHECK(made.ok());
}

void PlainTables(Setup& s) {
  rocksdb::PlainTableOptions plain;
  plain.hash_table_ratio = 0;  // or it would need a prefix extractor
  s.other_table.reset(rocksdb::NewPlainTableFactory(plain));
}

}  // namespace

const std::vector<Setting>& TableSettings() {
  static const std::vector<Setting> settings = {
    PULSE_SETTING("table.block_align", "true", s.table.block_align = true),
    PULSE_SETTING("table.block_align", "true, 1 KiB blocks",
                  (s.table.block_align = true, s.table.block_size = 1 << 10)),
    PULSE_SETTING("table.block_align", "true, 16 KiB blocks",
                  (s.table.block_align = true, s.table.block_size = 16 << 10)),
#if PULSE_ROCKSDB_AT_LEAST(11, 0)
    PULSE_SETTING("table.super_block_alignment_size", "32 KiB",
                  (s.table.super_block_alignment_size = 32 << 10,
                   s.table.super_block_alignment_space_overhead_ratio = 4)),
#endif
    PULSE_SET(table.block_size, 512),
    PULSE_SET(table.block_size, 16 << 10),
    PULSE_SET(table.block_size, 256 << 10),
    PULSE_SET(table.block_size_deviation, 0),
    PULSE_SET(table.block_restart_interval, 1),
    PULSE_SET(table.block_restart_interval, 64),
    PULSE_SET(table.index_block_restart_interval, 8),
    PULSE_SET(table.metadata_block_size, 512),
    PULSE_SET(table.checksum, rocksdb::kNoChecksum),
    PULSE_SET(table.checksum, rocksdb::kCRC32c),
    PULSE_SET(table.checksum, rocksdb::kxxHash),
    PULSE_SET(table.checksum, rocksdb::kxxHash64),
    PULSE_SET(table.checksum, rocksdb::kXXH3),
    PULSE_SET(table.format_version, 2),
    PULSE_SET(table.format_version, 3),
    PULSE_SET(table.format_version, 4),
#if PULSE_ROCKSDB_AT_LEAST(8, 6)
    PULSE_SET(table.format_version, 6),
#endif
    PULSE_SETTING("table.index_type", "hash",
                  (NeedPrefix(s), s.table.index_type = Table::kHashSearch)),
    PULSE_SET(table.index_type, Table::kTwoLevelIndexSearch),
    PULSE_SET(table.index_type, Table::kBinarySearchWithFirstKey),
    PULSE_SETTING("table.partition_filters", "true",
                  (NeedFilter(s), s.table.index_type = Table::kTwoLevelIndexSearch,
                   s.table.partition_filters = true)),
    PULSE_SET(table.data_block_index_type, Table::kDataBlockBinaryAndHash),
    PULSE_SETTING("table.data_block_hash_table_util_ratio", "0.3",
                  (s.table.data_block_index_type = Table::kDataBlockBinaryAndHash,
                   s.table.data_block_hash_table_util_ratio = 0.3)),
    PULSE_SET(table.index_shortening, Table::IndexShorteningMode::kNoShortening),
    PULSE_SET(table.index_shortening, Table::IndexShorteningMode::kShortenSeparatorsAndSuccessor),
    PULSE_SET(table.cache_index_and_filter_blocks, true),
    PULSE_SET(table.pin_l0_filter_and_index_blocks_in_cache, true),
    PULSE_SET(table.pin_top_level_index_and_filter, false),
    PULSE_SET(table.no_block_cache, true),
    PULSE_SETTING("table.flush_block_policy_factory", "a block for each key",
                  s.table.flush_block_policy_factory = std::make_shared<BlockOfOneKey>()),
    PULSE_SETTING("table.persistent_cache", "in files", PersistentCache(s)),
    PULSE_SETTING("table.filter_policy", "bloom", NeedFilter(s)),
    PULSE_SETTING("table.filter_policy", "ribbon",
                  s.table.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10))),
    PULSE_SETTING("table.whole_key_filtering", "false",
                  (NeedPrefix(s), NeedFilter(s), s.table.whole_key_filtering = false)),
    PULSE_SETTING("table.optimize_filters_for_memory", "true",
                  (NeedFilter(s), s.table.optimize_filters_for_memory = true)),
    PULSE_SETTING("table.detect_filter_construct_corruption", "true",
                  (NeedFilter(s), s.table.detect_filter_construct_corruption = true)),
    PULSE_SET(table.use_delta_encoding, false),
    PULSE_SET(table.verify_compression, true),
    PULSE_SET(table.enable_index_compression, false),
    PULSE_SET(table.read_amp_bytes_per_bit, 32),
    PULSE_SET(table.prepopulate_block_cache, Table::PrepopulateBlockCache::kFlushOnly),
    PULSE_SET(table.initial_auto_readahead_size, 0),
    PULSE_SET(table.max_auto_readahead_size, 0),
    PULSE_SET(table.num_file_reads_for_auto_readahead, 0),
    PULSE_SETTING("table format", "plain", PlainTables(s)),
  };
  return settings;
}

}  // namespace pulse::options_test
