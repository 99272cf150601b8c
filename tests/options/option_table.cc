#include "options/option_table.h"

#include <cstring>

namespace pulse::options_test {
namespace {

// A prefix of "option=value", so that "option=" means any value of it.
struct Conflict {
  const char* a;
  const char* b;
};

// From RocksDB's own checks (ColumnFamilyData::ValidateOptions, DBImpl::ValidateOptions,
// BlockBasedTableFactory::ValidateOptions), or two settings of one field. With tiers and
// blobs together, and with atomic flushes beside much else, assertions of 7.8 fail.
constexpr Conflict kConflicts[] = {
    {"table.block_align=", "options.compression"},
    {"table.block_align=", "options.bottommost_compression="},
    {"table.block_align=true, ", "table.block_size="},
    {"table.partition_filters=", "table.index_type="},
    {"table format=plain", "table."},
    {"options.compression=", "options.compression_opts="},
    {"options.allow_mmap_reads=", "options.use_direct_reads="},
    {"options.allow_mmap_writes=", "options.use_direct_io_for_flush_and_compaction="},
    {"options.unordered_write=", "options.enable_pipelined_write="},
    {"options.unordered_write=", "options.allow_concurrent_memtable_write="},
    {"options.unordered_write=", "options.memtable_factory="},
    {"options.unordered_write=", "options.inplace_update_support="},
    {"options.two_write_queues=", "options.enable_pipelined_write="},
    {"options.atomic_flush=", "options."},  // 7.8 fails by its own assertion, now and then
    {"options.allow_concurrent_memtable_write=", "options.memtable_factory="},
    {"options.allow_concurrent_memtable_write=", "options.inplace_update_support="},
    {"options.memtable_protection_bytes_per_key=", "options.inplace_update_support="},
    // Writes wait for compactions of files that these styles leave as they are.
    {"options.level0_slowdown_writes_trigger=", "options.compaction_style="},
    {"options.cf_paths=", "options.db_paths="},
    {"options.db_paths=", "options.compaction_style="},
    {"options.cf_paths=", "options.compaction_style="},
    {"options.preclude_last_level_data_seconds=", "options.compaction_style="},
    {"options.allow_mmap_reads=", "options.use_direct_io_for_flush_and_compaction="},
    {"options.unordered_write=", "options.manual_wal_flush="},  // hangs in RocksDB 7.8
    {"table format=plain", "options.periodic_compaction_seconds="},
    {"table.no_block_cache=", "table.cache_index_and_filter_blocks="},
    {"table.no_block_cache=", "table.pin_l0_filter_and_index_blocks_in_cache="},
    {"options.preclude_last_level_data_seconds=", "options.enable_blob"},
    {"options.preclude_last_level_data_seconds=", "options.blob_"},
    {"options.preclude_last_level_data_seconds=", "options.prepopulate_blob_cache="},
    {"options.persist_stats_to_disk=", "options.statistics="},
    {"options.rate_limiter=", "options.sst_file_manager="},
};

bool Matches(const Setting& s, const char* pattern) {
  const std::string name = std::string(s.option) + "=" + s.value;
  return name.rfind(pattern, 0) == 0;
}

}  // namespace

std::vector<const Setting*> AllSettings() {
  std::vector<const Setting*> all;
  for (const auto* part : {&TableSettings(), &FamilySettings(), &DbSettings()}) {
    for (const Setting& s : *part) all.push_back(&s);
  }
  return all;
}

bool KnownConflict(const Setting& a, const Setting& b) {
  if (std::strcmp(a.option, b.option) == 0) return true;
  for (const Conflict& c : kConflicts) {
    if ((Matches(a, c.a) && Matches(b, c.b)) || (Matches(a, c.b) && Matches(b, c.a))) return true;
  }
  return false;
}

std::string NamesOf(const std::vector<const Setting*>& settings) {
  std::string names;
  for (const Setting* s : settings) {
    if (!names.empty()) names += "; ";
    names += std::string(s->option) + " = " + s->value;
  }
  return names;
}

}  // namespace pulse::options_test
