#include "apps/pulse/top/kv_view.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "apps/pulse/top/cpu_lines.h"
#include "apps/pulse/top/units.h"
#include "apps/pulse/util/terminal_text.h"

namespace pulse::top {
namespace {

constexpr std::array<Style, 2> kSideStyles = {Style::kMerge, Style::kFetch};

class KvPainter {
 public:
  explicit KvPainter(const Look& look) : look_(look) {}

  void Header(size_t there, double interval, const std::string& clock) {
    ScreenLine line(look_);
    line.Add(" pulse top ", Style::kBold).To(12).Add(Count(there, "server", "servers"));
    Put(line.Right(fmt::format("every {:g} s  {}", interval, clock), Style::kDim));
  }

  void Server(const WatchedKv& w) {
    lines_.emplace_back();
    ScreenLine name(look_);
    const bool lost = !w.error.empty();
    name.Add(lost ? " ! " : look_.blocks ? " ● " : " * ", lost ? Style::kAlarm : Style::kPersist);
    std::string what;
    if (w.known) {
      what = fmt::format("process {}, {}, up {}", w.rates.now.pid,
                         Count(w.rates.now.clients, "client", "clients"),
                         Uptime(static_cast<double>(w.rates.now.uptime)));
    }
    const size_t room = look_.width - std::min(look_.width, Columns(what) + 6);
    Put(name.Add(Tail(w.address, std::max<size_t>(room, 16)), Style::kBold)
            .Right(what, Style::kDim));
    if (lost) {
      for (const std::string& part : Wrap(w.error, look_.width, 3)) {
        Put(ScreenLine(look_).Add("   ").Add(part, Style::kAlarm));
      }
      return;
    }
    Design(w.rates.now);
    Requests(w.rates);
    Memory(w.rates);
    for (size_t side = 0; side < kCpuSideNames.size(); ++side) Cpu(w.rates, side);
  }

  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  void Put(const ScreenLine& line) { lines_.push_back(line.text()); }

  void Design(const KvSample& s) {
    if (s.design.empty()) return;
    ScreenLine line(look_);
    line.Add("   design ").To(18).Add(s.design_now, Style::kBold);
    if (s.design != s.design_now) {
      line.Add(fmt::format(" by {}, {}", s.design, Count(s.design_changes, "change", "changes")));
    }
    Put(line);
  }

  void Requests(const KvRates& r) {
    ScreenLine line(look_);
    line.Add("   requests ").To(18).Add(CountRate(r.requests), Style::kBold);
    if (r.shared_requests > 0) {
      line.Add(fmt::format(", {} by shared memory", CountRate(r.shared_requests)));
    }
    if (r.hit_share >= 0) line.Add(fmt::format("  {} of reads found", Percent(r.hit_share)));
    if (r.errors > 0) line.Add(fmt::format("  {} errors", CountRate(r.errors)), Style::kAlarm);
    Put(line);
  }

  void Memory(const KvRates& r) {
    const KvSample& s = r.now;
    const double share =
        s.memory == 0 ? 0 : static_cast<double>(s.partitions) / static_cast<double>(s.memory);
    ScreenLine line(look_);
    line.Add("   memory ").To(18);
    if (s.memory > 0) {
      line.Bar(share, kBarCells, Style::kQueue).Add(fmt::format("{:>6}  ", Percent(share)));
      line.Add(fmt::format("{} of {}", Bytes(static_cast<double>(s.partitions)),
                           Bytes(static_cast<double>(s.memory))));
    } else {
      line.Add(Bytes(static_cast<double>(s.resident)));
    }
    Put(line.To(64).Add(Count(s.keys, "key", "keys")));
    if (s.design.empty()) return;
    ScreenLine items(look_);
    items.Add("   items ")
        .To(18)
        .Add(fmt::format("{}, dead {}, index {}; ", Bytes(static_cast<double>(s.live)),
                         Bytes(static_cast<double>(s.dead)), Bytes(static_cast<double>(s.index))));
    items.Add(fmt::format("{} expire, {} evicted", CountRate(r.expired), CountRate(r.evicted)));
    if (r.refused > 0) items.Add(fmt::format(", {} refused", CountRate(r.refused)), Style::kAlarm);
    Put(items);
  }

  // A side that has never had any is not there.
  void Cpu(const KvRates& r, size_t side) {
    const auto& ever = r.now.profile[side];
    if (*std::max_element(ever.begin(), ever.end()) == 0) return;
    for (std::string& line : CpuLines(look_, fmt::format("CPU, {}", kCpuSideNames[side]),
                                      r.shares[side], r.requests, kSideStyles[side])) {
      lines_.push_back(std::move(line));
    }
  }

  const Look look_;
  std::vector<std::string> lines_;
};

nlohmann::json CpuJson(const KvRates& r) {
  nlohmann::json cpu = {{"process_share", r.cpu_share}};
  for (size_t side = 0; side < kCpuSideNames.size(); ++side) {
    for (size_t i = 0; i < kCpuComponentNames.size(); ++i) {
      cpu[kCpuSideNames[side]][kCpuComponentNames[i]] = {
          {"share", r.shares[side][i]}, {"seconds_per_request", r.PerRequest(side, i)}};
    }
  }
  return cpu;
}

}  // namespace

std::vector<std::string> RenderAll(const std::vector<Watched>& agents,
                                   const std::vector<WatchedKv>& servers,
                                   const std::vector<WatchedGraph>& graphs, double interval,
                                   const std::string& clock, const Look& look, size_t height,
                                   bool keys) {
  if (servers.empty() && graphs.empty()) {
    return Render(agents, interval, clock, look, height, keys);
  }
  KvPainter out(look);
  if (agents.empty()) {
    const auto answers = [](const auto& w) { return w.error.empty(); };
    const auto there = std::count_if(servers.begin(), servers.end(), answers) +
                       std::count_if(graphs.begin(), graphs.end(), answers);
    out.Header(static_cast<size_t>(there), interval, clock);
  }
  for (const WatchedKv& w : servers) out.Server(w);
  std::vector<std::string> below = out.Take();
  for (const WatchedGraph& w : graphs) {
    const std::vector<std::string> more = GraphLines(w, look);
    below.insert(below.end(), more.begin(), more.end());
  }
  std::vector<std::string> lines;
  if (!agents.empty()) {
    // What is left of the window, but always the totals and a first agent.
    const size_t rest = std::max<size_t>(6, height - std::min(height, below.size() + 1));
    lines = Render(agents, interval, clock, look, height == 0 ? 0 : rest, false);
  }
  lines.insert(lines.end(), below.begin(), below.end());
  if (height == 0) return lines;
  const size_t body = height - (keys ? 1 : 0);
  if (lines.size() > body || keys) lines.resize(body);
  if (keys) lines.push_back(ScreenLine(look).Add(" q quits", Style::kDim).text());
  return lines;
}

nlohmann::json ToJson(const std::vector<WatchedKv>& servers) {
  using nlohmann::json;
  json all = json::array();
  for (const WatchedKv& w : servers) {
    json server = {{"address", w.address}};
    if (!w.error.empty()) {
      server["error"] = w.error;
      all.push_back(std::move(server));
      continue;
    }
    const KvRates& r = w.rates;
    const KvSample& s = r.now;
    server.update({{"pulse_version", s.version},
                   {"pid", s.pid},
                   {"uptime_seconds", s.uptime},
                   {"mode", s.mode},
                   {"interval_seconds", r.seconds},
                   {"clients", s.clients},
                   {"keys", s.keys},
                   {"requests_per_second", r.requests},
                   {"shared_memory_requests_per_second", r.shared_requests},
                   {"connections_per_second", r.connections},
                   {"errors_per_second", r.errors},
                   {"hit_share", r.hit_share < 0 ? json() : json(r.hit_share)},
                   {"resident_bytes", s.resident},
                   {"cpu", CpuJson(r)}});
    if (!s.design.empty()) {
      server.update({{"design", s.design},
                     {"design_now", s.design_now},
                     {"design_changes", s.design_changes},
                     {"policy", s.policy},
                     {"memory_bytes", s.memory},
                     {"partition_bytes", s.partitions},
                     {"index_bytes", s.index},
                     {"item_bytes", s.live},
                     {"dead_bytes", s.dead},
                     {"expired_per_second", r.expired},
                     {"evicted_per_second", r.evicted},
                     {"refused_per_second", r.refused}});
    }
    all.push_back(std::move(server));
  }
  return all;
}

}  // namespace pulse::top
