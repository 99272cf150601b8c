// CrashImage: what a disk may hold after its power was cut at some position of an OpLog.
//
// The model, stricter than Linux file systems are:
//   data       what was written before a sync of the file began is there once the sync has ended.
//              Later writes are lost or kept, sector by sector, whatever their order; a sector
//              holds what it held at some moment since the last sync
//   size       any that the file had since its last sync
//   MANIFEST   loses only an end of what was appended to it, in whole sectors. RocksDB itself
//              refuses one with a hole, on any file system: it relies on sizes that follow the
//              data, as with ext4's data=ordered
//   logs       what was not synced of a log is lost where an earlier log has lost something.
//              RocksDB 7.8 does not notice a gap between logs, on any file system. Nor one that
//              ends with a block of 32 KiB: zeros up to there pass for padding; what follows is
//              lost, too
//   names      a directory's changes become durable in order. What precedes the begin of a sync of
//              that directory which has ended is there; of the rest, some first part. Syncing a
//              file does not make its name durable, and directories do not depend on each other
//   renames    within a directory happen or do not
//
// One builder per log; builds any number of images. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "powercut/op_log.h"

namespace pulse::powercut {

class CrashImage {
 public:
  // `cache_dir` takes contents that cannot change any more; images link to them, which makes
  // building fast. It must be on the file system of the images. Tables and blobs only, since
  // RocksDB writes to none of them again.
  CrashImage(const OpLog* log, std::string cache_dir);
  ~CrashImage();
  CrashImage(const CrashImage&) = delete;

  // Creates directory `out` with what the subtree at `path` (relative to the disk's root) holds
  // when the operations before `cut` have happened. The same arguments give the same image. False
  // when there is no such directory in the image.
  bool Build(size_t cut, uint64_t seed, const std::string& path, const std::string& out);

 private:
  using Entries = std::map<std::string, NodeId>;
  struct Syncs {
    std::vector<std::pair<size_t, size_t>> begin_end;  // in order of their ends
  };

  size_t DurableBefore(NodeId node, size_t cut) const;
  Entries Names(NodeId dir, size_t cut, const std::vector<size_t>& kept) const;
  bool Write(NodeId dir, size_t cut, const std::vector<size_t>& kept, const std::string& out,
             std::mt19937_64* rng);
  // `log_lost`: an earlier log has lost something; set when this one does.
  void WriteFile(NodeId file, size_t cut, const std::string& name, const std::string& out,
                 bool* log_lost, std::mt19937_64* rng);
  std::string ContentAt(NodeId file, size_t changes) const;
  void Apply(const Op& op, std::string* content) const;
  std::string Tear(NodeId file, size_t durable, size_t end, bool only_ends,
                   std::mt19937_64* rng) const;

  const OpLog& log_;
  const std::string cache_dir_;
  std::vector<std::vector<size_t>> changes_;  // by node: its writes, or a directory's changes
  std::vector<Syncs> syncs_;                  // by node
  std::vector<bool> is_dir_;
  std::map<NodeId, std::pair<size_t, std::string>> cache_;  // number of changes, path
};

}  // namespace pulse::powercut
