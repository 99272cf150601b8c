#include "bench/macro/faults/crash_ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errors.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kMagic = 0x70'75'6c'73'65'6c'67'31;  // "pulselg1"

}  // namespace

CrashLedger::CrashLedger(void* map, size_t bytes)
    : map_(map),
      bytes_(bytes),
      header_(static_cast<Header*>(map)),
      entries_(reinterpret_cast<Entry*>(static_cast<char*>(map) + sizeof(Header))) {}

CrashLedger::~CrashLedger() { munmap(map_, bytes_); }

absl::StatusOr<std::unique_ptr<CrashLedger>> CrashLedger::Map(const std::string& path, int flags,
                                                              uint64_t keys) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  const UniqueFd fd(open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoError(errno, "opening ledger", path);
  size_t bytes = sizeof(Header) + keys * sizeof(Entry);
  if ((flags & O_CREAT) != 0) {
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
      return ErrnoError(errno, "sizing ledger", path);
    }
  } else {
    struct stat st;
    if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "looking at ledger", path);
    bytes = static_cast<size_t>(st.st_size);
  }
  if (bytes < sizeof(Header)) return absl::DataLossError("ledger " + path + " is cut short");
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return ErrnoError(errno, "mapping ledger", path);
  return std::unique_ptr<CrashLedger>(new CrashLedger(map, bytes));
}

absl::StatusOr<std::unique_ptr<CrashLedger>> CrashLedger::Create(const std::string& path,
                                                                 uint64_t keys) {
  auto ledger = Map(path, O_CREAT | O_TRUNC, keys);
  if (!ledger.ok()) return ledger.status();
  (*ledger)->header_->keys = keys;
  (*ledger)->header_->magic = kMagic;
  return ledger;
}

absl::StatusOr<std::unique_ptr<CrashLedger>> CrashLedger::Open(const std::string& path) {
  auto ledger = Map(path, 0, 0);
  if (!ledger.ok()) return ledger.status();
  const Header& h = *(*ledger)->header_;
  if (h.magic != kMagic || (*ledger)->bytes_ != sizeof(Header) + h.keys * sizeof(Entry)) {
    return absl::DataLossError(path + " is no ledger of this program");
  }
  return ledger;
}

uint64_t CrashLedger::Begin(uint64_t key, bool present) {
  Entry& e = entry(key);
  const uint64_t version = e.version.load(std::memory_order_relaxed) + 1;
  e.version.store(version, std::memory_order_relaxed);
  // Before the database hears of it: a process that is killed here has at worst begun nothing.
  e.begun.store(version << 1 | (present ? 1 : 0));
  return version;
}

void CrashLedger::Acknowledge(uint64_t key) {
  Entry& e = entry(key);
  e.acknowledged.store(e.begun.load());
  header_->operations.fetch_add(1, std::memory_order_relaxed);
}

void CrashLedger::Report(const std::string& problem) {
  if (header_->problems.fetch_add(1) != 0) return;
  const size_t n = std::min(problem.size(), header_->first_problem.size() - 1);
  std::memcpy(header_->first_problem.data(), problem.data(), n);
}

std::string CrashLedger::problem() const {
  const uint32_t n = header_->problems.load();
  if (n == 0) return "";
  const char* text = header_->first_problem.data();
  const std::string first(text, strnlen(text, header_->first_problem.size()));
  return n == 1 ? first : fmt::format("{} problems, the first: {}", n, first);
}

std::string CrashLedger::Fault(uint64_t key, Change must, const std::string_view* value) {
  if (value == nullptr) {
    return must.present()
               ? fmt::format("key {} is missing, version {} was acknowledged", key, must.version())
               : "";
  }
  uint64_t stamp = 0;
  std::memcpy(&stamp, value->data(), sizeof(stamp));
  if (must.present() && stamp == must.version()) return "";
  return fmt::format("key {} holds version {}, where version {}{} was acknowledged", key, stamp,
                     must.version(), must.present() ? "" : ", a deletion,");
}

std::string CrashLedger::Check(uint64_t key, const std::string_view* value,
                               const ValueMaker& values) const {
  if (value != nullptr && (value->size() < kMinValueBytes || !values.Matches(key, *value))) {
    return fmt::format("key {} holds {} bytes that were never its value", key, value->size());
  }
  const Entry& e = entry(key);
  std::string problem = Fault(key, {e.acknowledged.load()}, value);
  if (problem.empty() || Fault(key, {e.begun.load()}, value).empty()) return "";
  return problem;
}

void CrashLedger::Settle(uint64_t key, const std::string_view* value) {
  Entry& e = entry(key);
  uint64_t word = e.version.load() << 1;  // absent
  if (value != nullptr) {
    uint64_t stamp = 0;
    std::memcpy(&stamp, value->data(), sizeof(stamp));
    word = stamp << 1 | 1;
  }
  e.begun.store(word);
  e.acknowledged.store(word);
}

}  // namespace pulse::bench
