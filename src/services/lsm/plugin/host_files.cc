#include "services/lsm/plugin/host_files.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/core/manifest_records.h"
#include "services/lsm/core/output_hints.h"
#include "services/lsm/core/thread_activity.h"

namespace pulse::lsm {
namespace {

// Compaction reads below this are index, filter and footer blocks: the file serves them.
constexpr size_t kMinFetchRead = 32 * 1024;

class OutputWritableFile : public FSWritableFile {
 public:
  OutputWritableFile(std::shared_ptr<FileContext> context, std::shared_ptr<OutputFile> output,
                     const FileOptions& options, bool strict,
                     std::shared_ptr<CompressionThreads::Start> start)
      : FSWritableFile(options),
        context_(std::move(context)),
        output_(std::move(output)),
        start_(std::move(start)),
        starts_(start_ != nullptr),
        strict_(strict),
        preallocate_(options.allow_fallocate) {}

  ~OutputWritableFile() override {
    EndStart();
    // RocksDB has abandoned the file without closing it, and will delete it: no barrier needs it.
    if (closed_) return;
    output_->MarkErrorSeen();
    output_->Close(/*wait=*/false).IgnoreError();  // no caller is left to report it to
  }

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext*) override {
    if (!has_hints_) [[unlikely]]
      TakeHints(options);
    return Add(data);
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext*) override {
    if (!has_hints_) [[unlikely]]
      TakeHints(options);
    return Add(data);
  }
  // Appends only: tables and blobs are written front to back. This is never called on a file that
  // does not claim direct I/O.
  using FSWritableFile::PositionedAppend;
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("PositionedAppend on an output of pulse://");
  }

  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return Report(output_->Truncate(size));
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override {
    return MidAppend() ? IOStatus::OK() : Report(output_->Flush());
  }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return Report(output_->Sync(strict_));
  }
  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return Report(output_->Sync(strict_));
  }
  bool IsSyncThreadSafe() const override { return false; }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    if (closed_) return IOStatus::OK();
    EndStart();
    closed_ = true;  // whatever Close returns
    return Report(output_->Close(strict_));
  }

  // False, though the agent does direct I/O: RocksDB would then leave Sync out and make durability
  // of Truncate and Fsync in Close. The stream aligns by itself.
  bool use_direct_io() const override { return false; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return output_->size(); }
  size_t GetUniqueId(char*, size_t) const override { return 0; }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  // The stream has its own sync interval.
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  // Preallocation is one request to the agent when the file starts, not a call before every append.
  void PrepareWrite(size_t offset, size_t length, const IOOptions&, IODebugContext*) override {
    prepared_end_ = offset + length;
  }
  IOStatus Allocate(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  void SetPreallocationBlockSize(size_t size) override {
    FSWritableFile::SetPreallocationBlockSize(size);
    hints_.preallocates = true;
    if (preallocate_) output_->set_preallocation(size);
  }

  void SetIOPriority(rocksdb::Env::IOPriority priority) override {
    FSWritableFile::SetIOPriority(priority);
    hints_.priority = priority;
  }
  void SetWriteLifeTimeHint(rocksdb::Env::WriteLifeTimeHint hint) override {
    FSWritableFile::SetWriteLifeTimeHint(hint);
    hints_.lifetime = hint;
  }

 private:
  // At the first append RocksDB has given all hints about the flush or compaction.
  void TakeHints(const IOOptions& options) {
    has_hints_ = true;
    hints_.AddFrom(options);
    hints_.thread_compacts = ThreadActivity::compacting();
    const IoPurpose purpose = PurposeOf(hints_);
    if (purpose == IoPurpose::kUnknown) return;
    output_->set_purpose(purpose);
    ThreadActivity::SetPurpose(purpose);
    ThreadActivity::ApplyPriority(static_cast<int>(context_->session->options().compaction_nice),
                                  purpose);
    context_->session->NotePressure(hints_.stalls() ? wire::kPressureDelayed : wire::kPressureNone);
  }

  // WritableFileWriter flushes for two reasons. Its caller may want all that it has appended to be
  // visible. Or the writer's own buffer is full within an Append, before all that it has announced
  // is here: then nobody relies on it, and the agent would be sent a padded page for each block.
  bool MidAppend() const { return output_->size() < prepared_end_; }

  void EndStart() {
    if (start_ == nullptr) return;
    start_->End();
    start_ = nullptr;
  }

  IOStatus Add(const Slice& data) {
    if (starts_) {
      EndStart();
      context_->compression->Sample();
    }
    context_->BeforeAppend();
    const absl::Status st = output_->Append(data.data(), data.size());
    return st.ok() ? IOStatus::OK() : Report(st);
  }

  IOStatus Report(const absl::Status& st) {
    if (!st.ok()) output_->MarkErrorSeen();
    return ToIOStatus(st);
  }

  const std::shared_ptr<FileContext> context_;
  const std::shared_ptr<OutputFile> output_;
  std::shared_ptr<CompressionThreads::Start> start_;  // until the first append
  const bool starts_;                                 // threads, maybe
  const bool strict_;
  const bool preallocate_;
  OutputHints hints_;
  bool has_hints_ = false;
  uint64_t prepared_end_ = 0;  // the file's size once the append that RocksDB is in has ended
  bool closed_ = false;
};

class BarrierWritableFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  BarrierWritableFile(std::shared_ptr<FileContext> context, std::string dir, Metadata kind,
                      uint64_t offset, std::unique_ptr<FSWritableFile> base)
      : FSWritableFileOwnerWrapper(std::move(base)),
        context_(std::move(context)),
        dir_(std::move(dir)),
        kind_(kind),
        records_(offset) {
    named_.all = kind == Metadata::kProgress;
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = BeforeAppend(data);
    return After(s.ok() ? target()->Append(data, options, dbg) : s);
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* dbg) override {
    IOStatus s = BeforeAppend(data);
    return After(s.ok() ? target()->Append(data, options, info, dbg) : s);
  }
  // RocksDB only appends to its MANIFEST; after any other write the records are unknown.
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* dbg) override {
    AssumeAny();
    IOStatus s = Barrier();
    return s.ok() ? target()->PositionedAppend(data, offset, options, dbg) : s;
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& info,
                            IODebugContext* dbg) override {
    AssumeAny();
    IOStatus s = Barrier();
    return s.ok() ? target()->PositionedAppend(data, offset, options, info, dbg) : s;
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override {
    AssumeAny();
    return target()->Truncate(size, options, dbg);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = Barrier();
    return AfterSync(s.ok() ? target()->Sync(options, dbg) : s);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    IOStatus s = Barrier();
    return AfterSync(s.ok() ? target()->Fsync(options, dbg) : s);
  }

 private:
  // From now on the file could name any output.
  void AssumeAny() {
    any_ = any_ || kind_ == Metadata::kManifest;
    named_.all = named_.all || any_;
  }

  IOStatus BeforeAppend(const Slice& data) {
    if (kind_ == Metadata::kManifest) {
      const absl::string_view bytes(data.data(), data.size());
      // What is understood only now, since its first fragment came in pieces, is from now on.
      named_.all = !records_.Append(bytes, &named_.numbers) || any_;
    }
    return Barrier();
  }
  IOStatus Barrier() {
    absl::Status st =
        context_->registry->BeforeMetadata(dir_, named_, kind_ == Metadata::kManifest);
    if (kind_ == Metadata::kManifest) ThreadActivity::End();
    // Tables that were linked or renamed, not written, as by an import of a column family.
    if (st.ok() && context_->pool != nullptr) st = context_->pool->CommitNames();
    return ToIOStatus(st);
  }
  IOStatus After(IOStatus s) {
    if (!s.ok()) AssumeAny();  // the file may hold other bytes than the records followed
    return s;
  }
  IOStatus AfterSync(IOStatus s) {
    if (s.ok()) named_.numbers.clear();  // the records and the outputs they name are durable
    return s;
  }

  const std::shared_ptr<FileContext> context_;
  const std::string dir_;
  const Metadata kind_;
  ManifestRecords records_;
  NamedFiles named_;  // since the last sync
  bool any_ = false;  // other bytes may have been written than the records followed
};

// For a reader that began before the file was durable: its writer, and the means to open the path
// again when a rescue has put another inode there.
class InFlightBase {
 public:
  InFlightBase(FileSystem* base, std::string path, const FileOptions& options,
               std::shared_ptr<OutputFile> output)
      : base_(base),
        path_(std::move(path)),
        options_(options),
        output_(std::move(output)),
        generation_(output_->generation()) {}

  OutputFile& output() const { return *output_; }

  // The file to read: `first`, or a newer one. Null when that cannot be opened.
  FSRandomAccessFile* Current(FSRandomAccessFile* first, IOStatus* s) {
    if (output_->generation() == generation_.load(std::memory_order_acquire)) {
      FSRandomAccessFile* newest = newest_.load(std::memory_order_acquire);
      return newest != nullptr ? newest : first;
    }
    std::lock_guard lock(mu_);
    const uint32_t generation = output_->generation();
    std::unique_ptr<FSRandomAccessFile> file;
    *s = base_->NewRandomAccessFile(path_, options_, &file, nullptr);
    if (!s->ok()) return nullptr;
    newest_.store(file.get(), std::memory_order_release);
    opened_.push_back(std::move(file));  // the older ones may still be read from
    generation_.store(generation, std::memory_order_release);
    return newest_;
  }

 private:
  FileSystem* const base_;
  const std::string path_;
  const FileOptions options_;
  const std::shared_ptr<OutputFile> output_;
  std::atomic<uint32_t> generation_;
  std::mutex mu_;
  std::atomic<FSRandomAccessFile*> newest_{nullptr};
  std::vector<std::unique_ptr<FSRandomAccessFile>> opened_;
};

class FetchingRandomAccessFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FetchingRandomAccessFile(std::shared_ptr<FileContext> context, std::string path,
                           std::unique_ptr<InFlightBase> in_flight,
                           std::unique_ptr<FSRandomAccessFile> base)
      : FSRandomAccessFileOwnerWrapper(std::move(base)),
        context_(std::move(context)),
        path_(std::move(path)),
        in_flight_(std::move(in_flight)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    CompressionThreads::EndMine();
    if (InFlight()) return ReadInFlight(offset, n, options, result, scratch, dbg);
    if (n >= kMinFetchRead && context_->fetch != nullptr && IsCompactionRead(options) &&
        context_->AgentDoesIo()) {
      ThreadActivity::BeginCompactionRead();
      if (const std::shared_ptr<FetchedFile> f = Fetched()) {
        bool finished;
        const int64_t got = f->Read(offset, n, scratch, &finished, ThreadActivity::ReadPurpose());
        if (finished) Release(f.get());
        if (got >= 0) {
          *result = Slice(scratch, static_cast<size_t>(got));
          return IOStatus::OK();
        }
      }
      Add(&context_->session->counters().fetch_misses, 1);
    }
    IOStatus s;
    FSRandomAccessFile* const base = Base(&s);
    return base == nullptr ? s : base->Read(offset, n, options, result, scratch, dbg);
  }

  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* dbg) override {
    if (!InFlight()) {
      IOStatus s;
      FSRandomAccessFile* const base = Base(&s);
      return base == nullptr ? s : base->MultiRead(requests, count, options, dbg);
    }
    for (size_t i = 0; i < count; ++i) {
      FSReadRequest& r = requests[i];
      r.status = ReadInFlight(r.offset, r.len, options, &r.result, r.scratch, dbg);
    }
    return IOStatus::OK();
  }

  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options,
                    IODebugContext* dbg) override {
    if (InFlight()) return IOStatus::NotSupported("the file is being written");
    // RocksDB then reads ahead itself, in reads large enough for the fetch stage.
    if (context_->fetch != nullptr && IsCompactionRead(options) && context_->AgentDoesIo()) {
      return IOStatus::NotSupported("compaction input is fetched by the agent");
    }
    IOStatus s;
    FSRandomAccessFile* const base = Base(&s);
    return base == nullptr ? s : base->Prefetch(offset, n, options, dbg);
  }

#if PULSE_ROCKSDB_AT_LEAST(9, 0)
  IOStatus ReadAsync(FSReadRequest& request, const IOOptions& options,
                     std::function<void(FSReadRequest&, void*)> callback, void* arg, void** handle,
                     rocksdb::IOHandleDeleter* deleter, IODebugContext* dbg) override {
#else
  IOStatus ReadAsync(FSReadRequest& request, const IOOptions& options,
                     std::function<void(const FSReadRequest&, void*)> callback, void* arg,
                     void** handle, rocksdb::IOHandleDeleter* deleter,
                     IODebugContext* dbg) override {
#endif
    if (!InFlight()) {
      IOStatus s;
      FSRandomAccessFile* const base = Base(&s);
      return base == nullptr
                 ? s
                 : base->ReadAsync(request, options, callback, arg, handle, deleter, dbg);
    }
    request.status =
        ReadInFlight(request.offset, request.len, options, &request.result, request.scratch, dbg);
    callback(request, arg);
    return IOStatus::OK();
  }

#if PULSE_ROCKSDB_AT_LEAST(11, 8)
  // A coroutine's read (GetAsync, MultiGetAsync).
  bool SubmitReadAsync(FSReadRequest& request, const IOOptions& options,
                       std::function<void(FSReadRequest&)> callback, IODebugContext* dbg) override {
    if (InFlight()) {
      request.status =
          ReadInFlight(request.offset, request.len, options, &request.result, request.scratch, dbg);
    } else {
      FSRandomAccessFile* const base = Base(&request.status);
      if (base != nullptr) return base->SubmitReadAsync(request, options, std::move(callback), dbg);
    }
    callback(request);
    return false;
  }
#endif

#if PULSE_ROCKSDB_AT_LEAST(10, 5)
  IOStatus GetFileSize(uint64_t* result) override {
    if (InFlight()) {
      *result = in_flight_->output().size();
      return IOStatus::OK();
    }
    IOStatus s;
    FSRandomAccessFile* const base = Base(&s);
    return base == nullptr ? s : base->GetFileSize(result);
  }
#endif

 private:
  bool InFlight() const { return in_flight_ != nullptr && !in_flight_->output().done(); }
  FSRandomAccessFile* Base(IOStatus* s) const {
    return in_flight_ == nullptr ? target() : in_flight_->Current(target(), s);
  }

  // Data that RocksDB has flushed must be visible, wherever it is. Not through the fetch stage,
  // which would cache what it read ahead of the writer.
  IOStatus ReadInFlight(uint64_t offset, size_t n, const IOOptions& options, Slice* result,
                        char* scratch, IODebugContext* dbg) const {
    OutputFile& output = in_flight_->output();
    IOStatus s = ToIOStatus(output.WaitWritten());
    if (!s.ok()) return s;
    // Beyond what was appended the file holds padding and preallocated zeros.
    const uint64_t size = output.size();
    const size_t readable = size > offset ? std::min<uint64_t>(n, size - offset) : 0;
    const auto served = output.Read(offset, readable, scratch);
    if (!served.ok()) return ToIOStatus(served.status());
    if (*served) {
      *result = Slice(scratch, readable);
      return s;
    }
    FSRandomAccessFile* const base = Base(&s);
    if (base == nullptr) return s;
    s = base->Read(offset, n, options, result, scratch, dbg);
    if (s.ok() && result->size() > readable) *result = Slice(result->data(), readable);
    return s;
  }

  // Opened with the first read; once more after the last reader has reached the end, or with the
  // next agent.
  std::shared_ptr<FetchedFile> Fetched() const {
    std::lock_guard lock(fetch_mu_);
    if (fetched_ != nullptr && !fetched_->dead()) return fetched_;
    fetched_ = nullptr;
    const std::shared_ptr<FetchPool> pool = context_->fetch->Pool();
    if (pool == nullptr) return nullptr;
    auto f = OpenFetched(pool);
    if (f.ok()) {
      fetched_ = *std::move(f);
    } else {
      LogOnce("fetch open", absl::StrCat("compaction reads of ", path_,
                                         " go past the agent: ", f.status().message()));
    }
    return fetched_;
  }
  absl::StatusOr<std::unique_ptr<FetchedFile>> OpenFetched(std::shared_ptr<FetchPool> pool) const {
    const IoMode io = context_->session->options().io;
    absl::StatusOr<FetchInput> input = absl::NotFoundError("");
    if (context_->pool != nullptr) input = context_->pool->OpenInput(CanonicalPath(path_), io);
    if (absl::IsNotFound(input.status())) input = OpenPlainInput(path_, io);
    if (!input.ok()) return input.status();
    return FetchedFile::Open(*std::move(input), std::move(pool));
  }
  void Release(const FetchedFile* f) const {
    std::lock_guard lock(fetch_mu_);
    if (fetched_.get() == f) fetched_ = nullptr;
  }

  const std::shared_ptr<FileContext> context_;
  const std::string path_;
  const std::unique_ptr<InFlightBase> in_flight_;  // null: it was durable when opened
  mutable std::mutex fetch_mu_;
  mutable std::shared_ptr<FetchedFile> fetched_;
};

}  // namespace

std::unique_ptr<FSWritableFile> NewOutputWritableFile(
    std::shared_ptr<FileContext> context, std::shared_ptr<OutputFile> output,
    const FileOptions& options, bool strict, std::shared_ptr<CompressionThreads::Start> start) {
  return std::make_unique<OutputWritableFile>(std::move(context), std::move(output), options,
                                              strict, std::move(start));
}

std::unique_ptr<FSWritableFile> NewBarrierWritableFile(std::shared_ptr<FileContext> context,
                                                       std::string dir, Metadata kind,
                                                       uint64_t offset,
                                                       std::unique_ptr<FSWritableFile> base) {
  return std::make_unique<BarrierWritableFile>(std::move(context), std::move(dir), kind, offset,
                                               std::move(base));
}

IOStatus NewFetchingRandomAccessFile(std::shared_ptr<FileContext> context, FileSystem* base,
                                     const std::string& path, const FileOptions& options,
                                     std::shared_ptr<OutputFile> output,
                                     std::unique_ptr<FSRandomAccessFile>* out,
                                     IODebugContext* dbg) {
  std::unique_ptr<InFlightBase> in_flight;
  // The generation first: a file opened after it is at least as new.
  if (output != nullptr) in_flight = std::make_unique<InFlightBase>(base, path, options, output);
  std::unique_ptr<FSRandomAccessFile> file;
  IOStatus s = base->NewRandomAccessFile(path, options, &file, dbg);
  if (!s.ok()) return s;
  *out = std::make_unique<FetchingRandomAccessFile>(std::move(context), path, std::move(in_flight),
                                                    std::move(file));
  return s;
}

}  // namespace pulse::lsm
