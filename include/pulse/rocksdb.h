// PulseDB for programs that link RocksDB: compaction and flush I/O on another processor.
// Implements PulseDB (section III) on stock RocksDB, as a FileSystem plug-in.
//
// Four ways in:
//   link       call RegisterRocksDb() once, or NewFileSystem(); link pulse_rocksdb and rocksdb
//   in-tree    ROCKSDB_PLUGINS=pulse; nothing to call
//   preload    LD_PRELOAD=libpulse_rocksdb.so; nothing to call
//   by environment alone: preloaded, with PULSE_URI: databases on RocksDB's default Env are on it
// In the first three, open the database through an Env of the URI, as with any other FileSystem
// plug-in:
//
//   rocksdb::Env* env;  std::shared_ptr<rocksdb::Env> guard;
//   rocksdb::ConfigOptions config;
//   config.ignore_unsupported_options = false;  // or an unregistered scheme passes as OK
//   auto s = rocksdb::Env::CreateFromUri(config, "", "pulse://", &env, &guard);
//   options.env = env;
//
// Ownership: the FileSystem owns its agent, or its connection to one; both live until the last
// reference is gone, which must be after the databases opened on it were closed.
// Threads: everything here may be called from any thread.
// Blocking: RegisterRocksDb does not block. NewFileSystem connects when the URI names a socket.
// Errors, as RocksDB statuses: InvalidArgument for a bad URI (names the option), for an agent of
// another protocol version or one that refuses, for a base that cannot be served and for a RocksDB
// of another minor version; PathNotFound where no socket is; IOError for an agent that does not
// answer or runs as another user.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/statistics.h"

namespace rocksdb {
struct ColumnFamilyDescriptor;
}

#ifndef PULSE_EXPORT
#define PULSE_EXPORT __attribute__((visibility("default")))
#endif

namespace pulse {

// What a FileSystem has done since it was created. Times in nanoseconds, sizes in bytes.
struct Stats {
  // Of the struct that the caller was compiled with: later releases add members at the end, and
  // fill in those that the caller knows.
  uint64_t struct_size = sizeof(Stats);
  uint64_t files_persisted = 0;  // outputs written by the agent
  uint64_t bytes_persisted = 0;
  uint64_t backpressure_waits = 0;  // times that an append waited for queue space
  uint64_t backpressure_nanos = 0;
  uint64_t barrier_waits = 0;  // directory syncs and MANIFEST writes that waited for outputs
  uint64_t barrier_nanos = 0;
  uint64_t bytes_fetched = 0;  // compaction input served from the agent's read-ahead
  uint64_t fetch_waits = 0;    // times that a compaction read waited for the agent
  uint64_t fetch_wait_nanos = 0;
  uint64_t fetch_misses = 0;     // compaction reads that went to the file directly
  uint64_t failovers = 0;        // agents lost
  uint64_t bytes_inline = 0;     // written by the host itself, for want of an agent or a queue
  uint64_t reconnects = 0;       // agents found again
  uint64_t agentless_nanos = 0;  // time without an agent
  // Outputs that the agent has synced and closed, and how long that took, as the host saw it: the
  // median of the last few thousand.
  uint64_t syncs = 0;
  uint64_t sync_median_nanos = 0;
  uint64_t sync_nanos = 0;  // of all of them together
  // Whole compactions (PlaceCompactions) that the agent has done, and that it did not finish or
  // refused, so that RocksDB did them here.
  uint64_t whole_compactions = 0;
  uint64_t whole_returned = 0;
  // Flushes that RocksDB's threads did on an embedded agent's CPUs (flushes=); their CPU time
  // there, and that of whole compactions.
  uint64_t agent_flushes = 0;
  uint64_t agent_flush_nanos = 0;
  uint64_t agent_compaction_nanos = 0;
  // Of the moment.
  uint64_t streams = 0;          // outputs that have a queue of their own
  uint64_t queued_bytes = 0;     // payload that the agent has not given back
  uint64_t queued_requests = 0;  // that it has not taken
  // CPU time of threads that compress on an embedded agent's CPUs (compression=agent); what they
  // have used in their last 2 ms may be missing.
  uint64_t agent_compression_nanos = 0;
};

// Registers "pulse://" with RocksDB's default ObjectLibrary. Idempotent. InvalidArgument when the
// RocksDB at run time is of another minor version.
PULSE_EXPORT rocksdb::Status RegisterRocksDb();

// Creates the FileSystem for `uri` on top of `base` (the default FileSystem when null). `base` must
// lead to PosixFileSystem, and change neither paths nor contents: table and blob files are opened
// by path. A base that is known to do so is refused.
PULSE_EXPORT rocksdb::Status NewFileSystem(const std::string& uri,
                                           std::shared_ptr<rocksdb::FileSystem> base,
                                           std::shared_ptr<rocksdb::FileSystem>* out);

// Chooses, for each compaction of the databases opened with `options`, the processor that does it:
// what placement=whole and placement=adaptive of the URI ask for. `options->env` must be an Env of
// pulse://. Sets `compaction_service` and adds a listener; call it once, before DB::Open. With
// LD_PRELOAD, before RocksDB 10, it is done for every database that is opened by DB::Open (not for
// those of TransactionDB).
//
//   placement=host      the host, as stock RocksDB
//   placement=split     the host merges, the agent reads ahead, writes and syncs (the default)
//   placement=whole     the agent does all of it, where it can; whole=deep: as DComp has it, from
//                       level 1 on and while host_slots= compactions run on the host
//   placement=adaptive  one of these, compaction by compaction, by rule
//
// flushes=agent|adaptive has RocksDB's flushes made on the CPUs of an embedded agent, always or
// while no other program contends for them: their threads run there as long as they write a table.
//
// An embedded agent does a whole compaction by RocksDB's own threads, which run on its CPUs
// meanwhile, and give way to flushes that do. It needs agent_cpus= that the process does not use
// otherwise (taskset) and agent_nice=0; else compactions are split, which is logged once. It is
// RocksDB's compaction like any other, with all that the database has, but for those that
// DB::CompactFiles asks for, which stay where they are; CancelWholeCompactions does nothing to it.
// agent_sched= is for the agent's own threads.
//
// On an external agent a whole compaction is DB::OpenAndCompact. The agent makes comparators,
// merge operators, filters and the like by name, from RocksDB's registry of objects (pulse agent
// --plugin loads what defines yours). Column families that it does not know, that have blob files,
// user-defined timestamps or table property collectors, and databases with two-phase commit or in a
// pool, stay on the host, which is logged once. WritePrepared transactions count as two-phase
// commit. What the agent does not finish, RocksDB does here. Also not given away: compactions that
// DB::CompactFiles asks for, databases with a rate limiter or an SstFileManager, and, before
// RocksDB 11, with file checksums or last_level_temperature; and families whose objects are not
// those that PlaceCompactions saw. A listener of the user's is told of the files of such a
// compaction when they are installed only, and before RocksDB 11 finds no table properties of them
// in CompactionJobInfo. Its outputs are cut by their size (and by a partitioner) alone, not by what
// they overlap one level below. Host and agent must have the same version of RocksDB, and room for
// a descriptor of each table.
//
// InvalidArgument when options->env is not of pulse://, a compaction_service is set already, or it
// was called for these options before.
PULSE_EXPORT rocksdb::Status PlaceCompactions(rocksdb::Options* options);
PULSE_EXPORT rocksdb::Status PlaceCompactions(
    rocksdb::DBOptions* options, const std::vector<rocksdb::ColumnFamilyDescriptor>& families);
// Prepares the options of a column family for compression=agent of `fs`: from RocksDB 11.8 on by a
// compression_manager, which wraps the one that is set, or RocksDB's own, and writes the same
// tables; before that by parallel_threads, where they are not set. PlaceCompactions does it for the
// options of a database that has no other families. Does nothing for another FileSystem, or without
// compression=agent. Call it before the database or the family is opened; the options of both keep
// nothing of `fs`.
PULSE_EXPORT void CompressOnAgent(const rocksdb::FileSystem* fs,
                                  rocksdb::ColumnFamilyOptions* options);
// Whole compactions under way end soon, without a result: RocksDB then does them here, or, if the
// database is closing, not at all. RocksDB before 10.4 does not ask for this by itself when a
// database closes, which then waits for the agent: call CancelAllBackgroundWork(db, false), then
// this, then close.
PULSE_EXPORT void CancelWholeCompactions(const rocksdb::DBOptions& options);

// Reads the statistics of a FileSystem that NewFileSystem or a URI made, also through wrappers.
// False when `fs` is none.
PULSE_EXPORT bool GetStats(const rocksdb::FileSystem* fs, Stats* out);

// For Options::listeners of databases on `fs`, if wanted: the agent then hears of write stalls as
// they begin and end, and serves flushes and compactions from L0 of such a database with
// precedence. Without it it hears of them too, but later. Several databases can share one. Null
// when `fs` is no FileSystem of this plug-in.
PULSE_EXPORT std::shared_ptr<rocksdb::EventListener> NewStallListener(
    const rocksdb::FileSystem* fs);
// The same counters by name, as RocksDB names its tickers: "pulse.backpressure.micros". Times in
// microseconds. False when `fs` is none of this plug-in's.
PULSE_EXPORT bool GetTickerMap(const rocksdb::FileSystem* fs, std::map<std::string, uint64_t>* out);

// Statistics for DBOptions::statistics that are `base` (RocksDB's own when null) and the counters
// of `fs` beside it: in ToString(), and so in what RocksDB writes to its LOG each
// stats_dump_period_sec; and in getTickerMap(), and so in DB::GetStatsHistory(). They are those of
// the whole FileSystem, also where several databases share it. Keeps `fs` and `base` alive.
// set_stats_level() is to be called on the result. InvalidArgument when `fs` is none of this
// plug-in's.
//
// RocksDB's tickers and histograms are left to RocksDB. Of those, on pulse://:
// TABLE_SYNC_MICROS and COMPACTION_OUTFILE_SYNC_MICROS are near 0 with sync=barrier, as the Sync of
// an output returns before it is durable (pulse.sync.micros / pulse.syncs is how long that takes);
// MANIFEST_FILE_SYNC_MICROS has the waits at the barrier in it.
PULSE_EXPORT rocksdb::Status NewStatistics(std::shared_ptr<rocksdb::FileSystem> fs,
                                           std::shared_ptr<rocksdb::Statistics> base,
                                           std::shared_ptr<rocksdb::Statistics>* out);

// What one flush or compaction has waited for, summed over its threads. Times in nanoseconds, sizes
// in bytes.
struct JobWaits {
  std::string database;
  std::string column_family;
  int job_id = 0;  // as in RocksDB's LOG
  bool is_flush = false;
  uint64_t backpressure_waits = 0;  // appends that waited for queue space
  uint64_t backpressure_nanos = 0;
  uint64_t barrier_waits = 0;  // directory syncs and MANIFEST writes that waited for outputs
  uint64_t barrier_nanos = 0;
  uint64_t fetch_waits = 0;  // reads that waited for the agent
  uint64_t fetch_wait_nanos = 0;
  uint64_t bytes_persisted = 0;  // handed to the agent
  uint64_t bytes_inline = 0;     // written by the job's own threads
  uint64_t bytes_fetched = 0;    // read ahead by the agent
};
using JobCallback = std::function<void(const JobWaits&)>;

// A listener for DBOptions::listeners that writes a line to the database's LOG for each flush and
// compaction, "[pulse] [default] compaction job 12: waited ...", and calls `callback`, if there is
// one, on the job's thread, where it must not block. One for each database: subcompactions do not
// say whose they are. RocksDB writes the MANIFEST records of jobs that end together on one thread:
// the wait at the barrier is then in that job alone. Options name it "PulseWaitListener", so that
// listeners=PulseWaitListener in an OPTIONS file makes one, too.
PULSE_EXPORT std::shared_ptr<rocksdb::EventListener> NewWaitListener(JobCallback callback = {});

}  // namespace pulse
