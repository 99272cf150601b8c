// One measured run of `pulse bench files`: random reads of one file, by the library, by io_uring or
// by pread, or the writing of that file.
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/cpu_meter.h"
#include "nlohmann/json.hpp"
#include "pulse/files.h"

namespace pulse::bench {
namespace {

constexpr char kDirectory[] = "bench";
constexpr char kFile[] = "data";
constexpr uint64_t kBlock = 4096;

struct ReadSpec {
  uint64_t begin;  // of what is read, within the file
  uint64_t bytes;
  uint64_t io;
  uint32_t depth;
  int64_t nanos;
  uint64_t seed;
};

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<char, Free>;
Buffer MakeBuffer(uint64_t bytes) {
  return Buffer(static_cast<char*>(std::aligned_alloc(kBlock, bytes)));
}

class Offsets {
 public:
  explicit Offsets(const ReadSpec& s)
      : random_(s.seed), begin_(s.begin), io_(s.io), places_(s.bytes / s.io) {}
  uint64_t Next() { return begin_ + random_() % places_ * io_; }

 private:
  std::mt19937_64 random_;
  uint64_t begin_;
  uint64_t io_;
  uint64_t places_;
};

// Returns how many were read, until the time is up.
absl::StatusOr<uint64_t> ReadByPread(int fd, const ReadSpec& s) {
  Offsets offsets(s);
  const Buffer buffer = MakeBuffer(s.io);
  const int64_t until = NowNanos() + s.nanos;
  uint64_t n = 0;
  for (; NowNanos() < until; ++n) {
    if (pread(fd, buffer.get(), s.io, static_cast<off_t>(offsets.Next())) !=
        static_cast<ssize_t>(s.io)) {
      return ErrnoError(errno, "reading", "the store");
    }
  }
  return n;
}

absl::StatusOr<uint64_t> ReadByUring(int fd, const ReadSpec& s) {
  io_uring ring;
  io_uring_params params{};
  params.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN;
  if (const int rc = io_uring_queue_init_params(s.depth, &ring, &params); rc != 0) {
    return ErrnoError(-rc, "setting up", "io_uring");
  }
  const std::unique_ptr<io_uring, void (*)(io_uring*)> guard(&ring, io_uring_queue_exit);
  // As good as it gets: registered file and buffers.
  if (const int rc = io_uring_register_files(&ring, &fd, 1); rc != 0) {
    return ErrnoError(-rc, "registering", "the store's descriptor");
  }
  const Buffer memory = MakeBuffer(s.io * s.depth);
  const iovec all{memory.get(), s.io * s.depth};
  const bool fixed = io_uring_register_buffers(&ring, &all, 1) == 0;
  Offsets offsets(s);
  const auto submit = [&](uint64_t slot) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring);
    char* const to = memory.get() + slot * s.io;
    const auto length = static_cast<unsigned>(s.io);
    if (fixed) {
      io_uring_prep_read_fixed(sqe, 0, to, length, offsets.Next(), 0);
    } else {
      io_uring_prep_read(sqe, 0, to, length, offsets.Next());
    }
    sqe->flags |= IOSQE_FIXED_FILE;
    sqe->user_data = slot;
  };
  const int64_t until = NowNanos() + s.nanos;
  uint64_t n = 0;
  uint32_t open = 0;
  for (; open < s.depth; ++open) submit(open);
  while (open > 0) {
    io_uring_submit_and_wait(&ring, 1);
    const bool more = NowNanos() < until;
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring, &cqe) == 0) {
      const uint64_t slot = cqe->user_data;
      const int result = cqe->res;
      io_uring_cqe_seen(&ring, cqe);
      if (result != static_cast<int>(s.io)) return ErrnoError(-result, "reading", "the store");
      ++n;
      --open;
      if (more) {
        submit(slot);
        ++open;
      }
    }
  }
  return n;
}

struct Opened {
  std::unique_ptr<files::Library> library;
  files::Poll poll{};
  files::File file = files::File::kNone;
};

absl::StatusOr<files::Completion> Await(const Opened& o) {
  files::Completion c;
  PULSE_RETURN_IF_ERROR(o.library->PollWait(o.poll, &c, 1, files::kForever).status());
  if (!c.status.ok()) return c.status;
  return c;
}

absl::StatusOr<Opened> OpenLibrary(const nlohmann::json& spec, bool create) {
  Opened o;
  const std::string mover = spec.value("mover", "shared");
  auto library = files::Library::Open(
      {spec.at("socket").get<std::string>(),
       mover == "vmread" ? files::Transfer::kVmRead : files::Transfer::kShared});
  if (!library.ok()) return library.status();
  o.library = *std::move(library);
  // What is outstanding fits twice; more would only be spread over more cache.
  const uint64_t need = 4 * spec.at("io").get<uint64_t>() * spec.at("depth").get<uint64_t>();
  uint64_t ring = uint64_t{1} << 19;
  while (ring < need && ring < uint64_t{64} << 20) ring *= 2;
  const uint64_t requests = create ? uint64_t{4} << 20 : uint64_t{1} << 18;
  auto poll = o.library->CreatePoll({.request_bytes = requests, .response_bytes = ring});
  if (!poll.ok()) return poll.status();
  o.poll = *poll;
  if (create) {
    PULSE_RETURN_IF_ERROR(o.library->CreateDirectory(o.poll, kDirectory, 0));
    if (auto c = Await(o); !c.ok()) return c.status();
    PULSE_RETURN_IF_ERROR(o.library->CreateFile(o.poll, kDirectory, kFile, 0));
  } else {
    PULSE_RETURN_IF_ERROR(o.library->OpenFile(o.poll, kDirectory, kFile, 0));
  }
  PULSE_ASSIGN_OR_RETURN(auto c, Await(o));
  o.file = c.file;
  return o;
}

absl::StatusOr<uint64_t> ReadByLibrary(const Opened& o, const ReadSpec& s, bool in_place) {
  Offsets offsets(s);
  const Buffer memory = MakeBuffer(s.io * s.depth);
  const auto submit = [&](uint64_t slot) {
    return in_place ? o.library->ReadInPlace(o.file, offsets.Next(), s.io, slot)
                    : o.library->ReadFile(o.file, offsets.Next(), memory.get() + slot * s.io, s.io,
                                          slot);
  };
  // A few at a time: while they are handled the agent and the device have the next.
  std::vector<files::Completion> done(std::min<uint32_t>(s.depth, 8));
  const int64_t until = NowNanos() + s.nanos;
  uint64_t n = 0;
  uint32_t open = 0;
  std::vector<uint64_t> idle;
  for (uint64_t slot = 0; slot < s.depth; ++slot) idle.push_back(slot);
  bool more = true;
  while (more || open > 0) {
    while (more && !idle.empty()) {
      const absl::Status st = submit(idle.back());
      if (files::IsRetry(st)) break;
      PULSE_RETURN_IF_ERROR(st);
      idle.pop_back();
      ++open;
    }
    PULSE_ASSIGN_OR_RETURN(const auto got,
                           o.library->PollWait(o.poll, done.data(), done.size(), files::kForever));
    for (size_t i = 0; i < got; ++i) {
      files::Completion& c = done[i];
      PULSE_RETURN_IF_ERROR(c.status);
      if (c.bytes != s.io) return absl::DataLossError("a short read");
      o.library->Release(o.poll, &c);
      idle.push_back(c.cookie);
    }
    n += got;
    open -= static_cast<uint32_t>(got);
    more = NowNanos() < until;
  }
  return n;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunFilesFillJob(const nlohmann::json& spec) {
  PULSE_ASSIGN_OR_RETURN(auto opened, OpenLibrary(spec, /*create=*/true));
  const auto bytes = spec.at("bytes").get<uint64_t>();
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  std::string data(kPiece, '\0');
  std::mt19937_64 random(spec.at("seed").get<uint64_t>());
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    for (size_t i = 0; i < kPiece; i += 64) data[i] = static_cast<char>(random());
    PULSE_RETURN_IF_ERROR(opened.library->WriteFile(opened.file, at, data.data(), kPiece, 0));
    if (auto c = Await(opened); !c.ok()) return c.status();
  }
  PULSE_RETURN_IF_ERROR(opened.library->SyncFile(opened.file, 0));
  if (auto c = Await(opened); !c.ok()) return c.status();
  return nlohmann::json{{"bytes", bytes}};
}

absl::StatusOr<nlohmann::json> RunFilesReadJob(const nlohmann::json& spec) {
  const auto how = spec.at("how").get<std::string>();
  const bool library = how.starts_with("library");
  ReadSpec s{spec.at("begin").get<uint64_t>(),
             spec.at("bytes").get<uint64_t>(),
             spec.at("io").get<uint64_t>(),
             spec.at("depth").get<uint32_t>(),
             static_cast<int64_t>(spec.at("seconds").get<double>() * 1e9),
             spec.at("seed").get<uint64_t>()};
  Opened opened;
  UniqueFd fd;
  if (library) {
    PULSE_ASSIGN_OR_RETURN(opened, OpenLibrary(spec, /*create=*/false));
    s.begin = 0;
  } else {
    const auto path = spec.at("path").get<std::string>();
    fd.reset(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!fd.valid()) return ErrnoError(errno, "opening", path);
  }
  CpuMeter meter(library ? CpuMeter::Agent::kProcess : CpuMeter::Agent::kNone,
                 library ? spec.at("agent_pid").get<pid_t>() : 0);
  PULSE_RETURN_IF_ERROR(meter.Start());
  const int64_t start = NowNanos();
  const absl::StatusOr<uint64_t> n = library          ? ReadByLibrary(opened, s, how != "library")
                                     : how == "pread" ? ReadByPread(fd.get(), s)
                                                      : ReadByUring(fd.get(), s);
  const double seconds = static_cast<double>(NowNanos() - start) / 1e9;
  const auto use = meter.Stop();
  if (!n.ok()) return n.status();
  if (!use.ok()) return use.status();
  if (*n == 0) return absl::InternalError("nothing was read in time");
  const auto count = static_cast<double>(*n);
  return nlohmann::json{{"ops_per_s", count / seconds},
                        {"mib_per_s", count * static_cast<double>(s.io) / seconds / (1 << 20)},
                        {"host_us", use->host_seconds * 1e6 / count},
                        {"agent_us", use->agent_seconds * 1e6 / count}};
}

}  // namespace pulse::bench
