// PageCacheFiles: RocksDB's file system, whose tables can also be read without waiting: on a thread
// that is in WithoutWaiting, a table's bytes come out of the kernel's page cache (RWF_NOWAIT), or
// the read fails with Busy. A secondary's block cache is small, and what it has not is nearly
// always in the page cache, since the primary has just written or read it: no thread has to be
// asked for that. DDS section 8.
//
// What RocksDB 7.8 does with such an error:
// - A data or index block that could not be read ends Get, and that key of MultiGet, with the
// error.
//   Nothing is kept of it; a point read has no prefetch buffer, and tries nothing again. A filter
//   that could not be read is passed over: the key may be there.
// - A table that is *opened* with errors may be kept without its filter or its range deletions, for
//   good. So no file is opened in WithoutWaiting: that fails before anything is read, and a failure
//   to open is not kept. (A secondary's tables are open already; max_open_files is -1.)
// - Busy, since Incomplete means "the key may exist" in some places.
//
// A file system that cannot say whether it would wait is asked once. Tables that are read with
// O_DIRECT or mapped are RocksDB's own, and then it cannot be done, either: usable().
//
// Threads: any. Errors: RocksDB's.
#pragma once

#include <rocksdb/file_system.h>
#include <sys/uio.h>

#include <atomic>
#include <memory>
#include <string>

namespace pulse::redis {

// From here to its end, this thread's reads of tables do not wait. Not nested.
class WithoutWaiting {
 public:
  WithoutWaiting();
  ~WithoutWaiting();
  WithoutWaiting(const WithoutWaiting&) = delete;
  WithoutWaiting& operator=(const WithoutWaiting&) = delete;

  static bool on();
  // Bytes came out of the page cache since.
  bool has_read() const;
};

class PageCacheFiles final : public rocksdb::FileSystemWrapper {
 public:
  // preadv2, but in tests.
  using ReadNow = ssize_t (*)(int fd, const iovec* parts, int count, off_t offset, int flags);

  explicit PageCacheFiles(ReadNow read_now = &preadv2);

  const char* Name() const override { return "pulse-page-cache"; }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override;

  // WithoutWaiting makes sense.
  bool usable() const { return *usable_; }

 private:
  const ReadNow read_now_;
  const std::shared_ptr<std::atomic<bool>> usable_ = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace pulse::redis
