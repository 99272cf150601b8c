#include "examples/pages/load.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "examples/pages/client.h"

namespace pulse::pages {
namespace {

constexpr uint32_t kCell = 16;
constexpr uint32_t kOwn = 8;  // cells of a thread in each page
constexpr int64_t kSecond = 1'000'000'000;
constexpr uint64_t kMaxPages = uint64_t{1} << 20;  // that are loaded
constexpr int64_t kVerifyNanos = 60 * kSecond;     // for what cannot be read at once

uint64_t HashOf(uint64_t page, uint32_t cell, uint64_t number) {
  uint64_t x = page * 0x9E3779B97F4A7C15u ^ number * 0xD6E8FEB86659FD93u ^ cell;
  x ^= x >> 29;
  return x * 0xBF58476D1CE4E5B9u | 1;
}

class Worker {
 public:
  Worker(const LoadOptions& options, uint32_t thread)
      : o_(options), thread_(thread), dice_(options.seed * 1000 + thread) {}

  absl::Status Run(LoadResult* result) {
    result_ = result;
    PULSE_RETURN_IF_ERROR(Connect());
    PULSE_ASSIGN_OR_RETURN(const auto status, client_->Status());
    pages_ = std::min(status.pages, kMaxPages);
    cells_.resize(pages_ * kOwn);
    lsns_.assign(pages_, 0);
    first_ = static_cast<uint64_t>(ClockNanos(CLOCK_REALTIME));
    number_ = first_;
    const int64_t end = NowNanos() + static_cast<int64_t>(o_.seconds * 1e9);
    uint64_t sent = 0;
    const auto more = [&] { return NowNanos() < end && (o_.requests == 0 || sent < o_.requests); };
    absl::Status st;
    while (more() || client_->outstanding() > 0) {
      while (more() && client_->outstanding() < o_.outstanding) {
        Queue();
        ++sent;
      }
      st = client_->Flush();
      if (st.ok()) st = Take();
      if (st.ok()) continue;
      PULSE_RETURN_IF_ERROR(Again(st));
    }
    return o_.verify_all ? VerifyAll() : absl::OkStatus();
  }

 private:
  struct Asked {
    uint64_t page = 0;
    int64_t at = 0;
    std::array<uint64_t, kOwn> acked{};                  // of a read
    std::vector<std::pair<uint64_t, uint64_t>> numbers;  // of an append: cell, number
  };

  absl::Status Connect() {
    PULSE_ASSIGN_OR_RETURN(client_, Client::Connect(o_.host, o_.port));
    return absl::OkStatus();
  }

  absl::Status Again(const absl::Status& why) {
    if (!o_.reconnect || !absl::IsUnavailable(why)) return why;
    result_->lost += asked_.size();
    asked_.clear();  // cells that were being written stay so
    ++result_->reconnects;
    return examples::ConnectAgain([this] { return Connect(); });
  }

  uint32_t CellOf(uint32_t own) const { return thread_ + o_.threads * own; }

  void Queue() {
    if (examples::Coin(dice_()) < o_.read_share || !QueueAppend()) QueueRead(dice_() % pages_);
  }

  void QueueRead(uint64_t page) {
    Asked a;
    a.page = page;
    a.at = NowNanos();
    for (uint32_t k = 0; k < kOwn; ++k) a.acked[k] = cells_[page * kOwn + k].acked;
    asked_.emplace(client_->QueueGet(page, lsns_[page]), std::move(a));
  }

  bool QueueAppend() {
    Asked a;
    a.at = NowNanos();
    std::vector<std::array<uint64_t, 2>> data;
    data.reserve(o_.records);
    std::vector<Record> records;
    for (uint32_t i = 0; i < o_.records; ++i) {
      const uint64_t at = dice_() % cells_.size();
      examples::Written& cell = cells_[at];
      if (cell.writing) continue;
      cell.writing = true;
      cell.issued = ++number_;
      const uint32_t place = CellOf(static_cast<uint32_t>(at % kOwn));
      data.push_back({cell.issued, HashOf(at / kOwn, place, cell.issued)});
      records.push_back({at / kOwn,
                         static_cast<uint16_t>(place * kCell),
                         {reinterpret_cast<const char*>(&data.back()), kCell}});
      a.numbers.emplace_back(at, cell.issued);
    }
    if (records.empty()) return false;
    asked_.emplace(client_->QueueAppend(records), std::move(a));
    return true;
  }

  // The next reply, and what had asked for it.
  absl::StatusOr<std::pair<Response, Asked>> Receive() {
    PULSE_ASSIGN_OR_RETURN(auto r, client_->Receive());
    auto node = asked_.extract(r.id);
    if (node.empty()) return absl::InternalError("pages: a reply that nobody waits for");
    if (absl::IsDataLoss(r.status)) return r.status;
    return std::pair(std::move(r), std::move(node.mapped()));
  }

  absl::Status Take() {
    if (client_->outstanding() == 0) return absl::OkStatus();
    PULSE_ASSIGN_OR_RETURN(const auto reply, Receive());
    const auto& [r, a] = reply;
    if (!r.status.ok()) {
      result_->Refused(examples::TextOf(r.status));
      // What was refused for certain may be written again.
      const bool unknown = absl::IsUnavailable(r.status) || absl::IsInternal(r.status);
      for (const auto& [cell, number] : a.numbers) cells_[cell].writing = unknown;
      return absl::OkStatus();
    }
    result_->Answered(r.kind == Kind::kGet, NowNanos() - a.at);
    if (r.kind == Kind::kGet) return Check(a, r.page);
    for (const auto& [at, number] : a.numbers) {
      cells_[at].acked = number;
      cells_[at].writing = false;
      lsns_[at / kOwn] = std::max(lsns_[at / kOwn], r.lsn);
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Asked& a, const std::string& page) const {
    for (uint32_t k = 0; k < kOwn; ++k) {
      const uint32_t place = CellOf(k);
      uint64_t seen[2];
      std::memcpy(seen, page.data() + sizeof(PageHeader) + place * kCell, sizeof(seen));
      const bool empty = seen[0] == 0 && seen[1] == 0;
      const examples::Written& cell = cells_[a.page * kOwn + k];
      if ((empty || seen[1] == HashOf(a.page, place, seen[0])) &&
          cell.Allows(seen[0], a.acked[k], first_)) {
        continue;
      }
      return absl::DataLossError(absl::StrCat(
          "pages: page ", a.page, " of LSN ", HeaderOf(page.data()).lsn, " has write ", seen[0],
          " in cell ", place, "; it must be within ", a.acked[k], " and ", cell.issued));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyAll() {
    int64_t until = NowNanos() + kVerifyNanos;
    std::deque<uint64_t> left(pages_);
    std::iota(left.begin(), left.end(), uint64_t{0});
    while (!left.empty()) {
      while (!left.empty() && client_->outstanding() < o_.outstanding) {
        QueueRead(left.front());
        left.pop_front();
      }
      absl::Status late;
      absl::Status st = client_->Flush();
      while (st.ok() && client_->outstanding() > 0) st = TakeLast(&left, &late);
      if (!st.ok()) {
        for (const auto& [id, asked] : asked_) left.push_back(asked.page);
        PULSE_RETURN_IF_ERROR(Again(st));
        late = st;
      }
      if (late.ok()) {
        until = NowNanos() + kVerifyNanos;
        continue;
      }
      if (NowNanos() > until) return NotReadable(late);
      usleep(20'000);
    }
    return absl::OkStatus();
  }

  // A reply to a read of VerifyAll. A page that cannot be had yet goes back to `left`.
  absl::Status TakeLast(std::deque<uint64_t>* left, absl::Status* late) {
    PULSE_ASSIGN_OR_RETURN(const auto reply, Receive());
    const auto& [r, a] = reply;
    if (r.status.ok()) {
      ++result_->verified;
      return Check(a, r.page);
    }
    if (!absl::IsUnavailable(r.status) && !absl::IsDeadlineExceeded(r.status) &&
        !absl::IsResourceExhausted(r.status)) {
      return NotReadable(r.status);
    }
    *late = r.status;
    left->push_back(a.page);
    return absl::OkStatus();
  }

  static absl::Status NotReadable(const absl::Status& why) {
    return absl::InternalError(
        absl::StrCat("pages: a page cannot be read at the end: ", why.message()));
  }

  const LoadOptions& o_;
  const uint32_t thread_;
  std::mt19937_64 dice_;
  std::unique_ptr<Client> client_;
  LoadResult* result_ = nullptr;
  uint64_t pages_ = 0;
  uint64_t first_ = 0;
  uint64_t number_ = 0;
  std::vector<examples::Written> cells_;
  std::vector<uint64_t> lsns_;  // acknowledged, of each page
  std::unordered_map<uint64_t, Asked> asked_;
};

}  // namespace

absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options) {
  if (options.threads == 0 || options.threads * kOwn > kPayload / kCell) {
    return absl::InvalidArgumentError(
        absl::StrCat("pages: 1 to ", kPayload / kCell / kOwn, " threads"));
  }
  if (options.outstanding == 0 || options.records == 0 || options.records > kMaxRecords) {
    return absl::InvalidArgumentError("pages: something must be outstanding, and appended");
  }
  std::vector<LoadResult> results(options.threads);
  std::vector<absl::Status> statuses(options.threads);
  const int64_t begin = NowNanos();
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < options.threads; ++i) {
      threads.emplace_back([&, i] { statuses[i] = Worker(options, i).Run(&results[i]); });
    }
  }
  LoadResult all;
  all.seconds =
      std::min(static_cast<double>(NowNanos() - begin) / 1e9, std::max(options.seconds, 1e-3));
  for (uint32_t i = 0; i < options.threads; ++i) {
    PULSE_RETURN_IF_ERROR(statuses[i]);
    all.Add(results[i]);
  }
  return all;
}

}  // namespace pulse::pages
