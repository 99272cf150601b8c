// Block compression on the agent's CPUs (compression=agent): what a column family's options need
// for it. From RocksDB 11.8 on that is a CompressionManager that wraps the family's own, or
// RocksDB's. Its compressors are the wrapped one's, under the same names, so that tables and
// OPTIONS files are what they would be without it, but for two notes in a table's properties. They
// learn which thread compresses a block: RocksDB's workers move to the agent's CPUs with their
// first one.
//
// Before 11.8 it is parallel_threads, and RocksDB's workers inherit the agent's CPUs
// (compression_threads.h), which works in all versions.
#pragma once

#include "rocksdb/options.h"

namespace pulse::lsm {

// Has the blocks of a family's outputs compressed by several threads, unless its options say how
// many: before 11.8 by `agent_cpus` + 1. For compressions that gain by it.
void CompressInParallel(int agent_cpus, rocksdb::ColumnFamilyOptions* options);

// Whether its blocks are compressed, and by the thread that merges alone.
bool CompressesAlone(const rocksdb::ColumnFamilyOptions& options);

}  // namespace pulse::lsm
