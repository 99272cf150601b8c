// For tests: data of several kinds, and whole streams in memory through descriptors.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "services/ops/compress.h"
#include "services/ops/decompress.h"

namespace pulse::ops {

enum class Kind { kText, kRandom, kZeros, kMixed };

inline std::string MakeData(Kind kind, size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string data;
  data.reserve(size + 64);
  while (data.size() < size) {
    const Kind now = kind == Kind::kMixed ? static_cast<Kind>(random() % 3) : kind;
    const size_t piece = kind == Kind::kMixed ? 1 + random() % 100000 : size;
    const size_t end = std::min(size, data.size() + piece);
    switch (now) {
      case Kind::kRandom:
        while (data.size() < end) data.push_back(static_cast<char>(random()));
        break;
      case Kind::kZeros:
        data.resize(end);
        break;
      default:
        // Words of a small vocabulary, some of them new.
        while (data.size() < end) {
          const uint64_t word = random() % 7 == 0 ? random() % 100000 : random() % 300;
          data += std::to_string(word * 7919 % 99991);
          data += word % 11 == 0 ? '\n' : ' ';
        }
    }
  }
  data.resize(size);
  return data;
}

inline UniqueFd MemoryFile(const std::string& content) {
  UniqueFd fd(memfd_create("ops-test", MFD_CLOEXEC));
  for (size_t done = 0; done < content.size();) {
    const ssize_t n = write(fd.get(), content.data() + done, content.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

inline std::string ContentOf(const UniqueFd& fd) {
  std::string content;
  content.resize(static_cast<size_t>(lseek(fd.get(), 0, SEEK_END)));
  for (size_t done = 0; done < content.size();) {
    const ssize_t n =
        pread(fd.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return content;
}

// `in` as a file, or through a pipe that is written in pieces of odd sizes.
class Input {
 public:
  Input(const std::string& content, bool pipe) {
    if (!pipe) {
      fd_ = MemoryFile(content);
      return;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    fd_.reset(ends[0]);
    thread_ = std::thread([content, to = ends[1]] {
      for (size_t done = 0, piece = 1; done < content.size(); piece = piece * 3 + 1) {
        if (piece > 100000) piece = 1;
        const ssize_t n = write(to, content.data() + done, std::min(piece, content.size() - done));
        if (n <= 0) break;
        done += static_cast<size_t>(n);
      }
      close(to);
    });
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input() {
    fd_.reset();  // whoever writes gets an error, as SIGPIPE is ignored
    if (thread_.joinable()) thread_.join();
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::thread thread_;
};

inline absl::StatusOr<std::string> CompressText(const CompressOptions& options,
                                                const std::string& data, bool pipe = false,
                                                QueueStats* stats = nullptr) {
  const Input in(data, pipe);
  const UniqueFd out = MemoryFile("");
  const auto found = Compress(options, in.fd(), "IN", out.get(), "OUT");
  if (!found.ok()) return found.status();
  if (stats != nullptr) *stats = *found;
  return ContentOf(out);
}

struct Decompressed {
  absl::Status status;
  std::string data;  // also what was written before an error
  DecompressReport report;
};

inline Decompressed DecompressText(const std::string& bytes, bool pipe = false,
                                   DecompressOptions options = {}) {
  const Input in(bytes, pipe);
  const UniqueFd out = MemoryFile("");
  auto report = Decompress(options, in.fd(), "IN", out.get(), "OUT");
  Decompressed result;
  result.status = report.status();
  if (report.ok()) result.report = *std::move(report);
  result.data = ContentOf(out);
  return result;
}

}  // namespace pulse::ops
