// FileHooks: told what hosts do to the files of a FileStore, by somebody who reads the same files
// past the file service (src/offload). DDS section 6.2.
//
// Each change of bytes or of where they lie is between a Begins and an Ends of the same arguments:
// Begins returns before anything is done, Ends is called when the device has done it (or failed),
// and before the host is told. Changes of a file may overlap; of
// one byte, no two do.
//
// Threads: the worker of the file sessions; FileChange* also the change thread, at the same time.
// Must not block.
#pragma once

#include <cstdint>

#include "store/store.h"

namespace pulse::files {

class FileHooks {
 public:
  virtual ~FileHooks() = default;
  // A write, with the whole blocks that it touches and the gap before it.
  virtual void WriteBegins(store::FileId file, uint64_t begin, uint64_t end) = 0;
  virtual void WriteEnds(store::FileId file, uint64_t begin, uint64_t end) = 0;
  // Any of the file's bytes may go: it is cut or removed, or its segments given back.
  virtual void FileChangeBegins(store::FileId file) = 0;
  virtual void FileChangeEnds(store::FileId file) = 0;
  // Before WriteEnds: `data` (the host's memory, which it can change) are on the device. Null: the
  // write has failed, and what is there now is not known. In the order in which the device has
  // them.
  virtual void Wrote(store::FileId file, uint64_t offset, uint64_t size, const char* data) = 0;
  // Before the host gets any of it.
  virtual void ReadTaken(store::FileId file, uint64_t offset, uint64_t size) = 0;
};

}  // namespace pulse::files
