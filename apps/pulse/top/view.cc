#include "apps/pulse/top/view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/pulse/top/cpu_lines.h"
#include "apps/pulse/top/units.h"
#include "apps/pulse/util/terminal_text.h"

namespace pulse::top {
namespace {

constexpr size_t kSparkCells = 30;
// A share of waiting from which it deserves attention.
constexpr double kMuch = 0.1;

std::string NameOf(const SessionSample& s) {
  if (s.databases.empty()) {
    if (s.service == "files") return "(file library)";
    if (s.service != "lsm") return "(" + s.service + ")";
    return s.has_host ? "(no database open)" : "(new)";
  }
  std::string name = s.databases[0];
  const uint64_t all = std::max<uint64_t>(s.databases.size(), s.HostNumber("databases"));
  if (all > 1) name += fmt::format(" and {} more", all - 1);
  return name;
}

double QueueShare(const SessionSample& s) {
  const auto memory = static_cast<double>(s.HostNumber("queue_memory"));
  return memory == 0 ? 0 : static_cast<double>(s.HostNumber("queued_bytes")) / memory;
}

Style WaitStyle(double share) { return share >= kMuch ? Style::kAlarm : Style::kPlain; }

class Painter {
 public:
  Painter(const Look& look, size_t height) : look_(look), height_(height) {}

  void Header(const std::vector<Watched>& agents, double interval, const std::string& clock) {
    size_t there = 0, sessions = 0;
    uint64_t databases = 0;
    double read = 0, written = 0, syncs = 0, by_host = 0;
    for (const Watched& w : agents) {
      if (!w.error.empty()) continue;
      ++there;
      for (const SessionRates& s : w.rates.sessions) {
        ++sessions;
        databases += s.now.HostNumber("databases");
        read += s.read;
        written += s.written;
        syncs += s.syncs;
        by_host += s.host.inline_written;
      }
    }
    ScreenLine first(look_);
    first.Add(" pulse top ", Style::kBold).To(12);
    first.Add(fmt::format("{}, {}, {}", Count(there, "agent", "agents"),
                          Count(sessions, "session", "sessions"),
                          Count(databases, "database", "databases")));
    first.Right(fmt::format("every {:g} s  {}", interval, clock), Style::kDim);
    Put(first);
    ScreenLine total(look_);
    total.Add(" total ", Style::kBold).To(12);
    total.Add("fetch ").Add(Rate(read), Style::kFetch);
    total.Add("  persist ").Add(Rate(written), Style::kPersist);
    total.Add(fmt::format("  {:.1f} syncs/s", syncs));
    if (by_host > 0) total.Add("  inline ").Add(Rate(by_host), Style::kAlarm);
    Put(total);
  }

  void Agent(const Watched& w) {
    Blank();
    ScreenLine name(look_);
    const bool lost = !w.error.empty();
    name.Add(lost ? " ! " : look_.blocks ? " ● " : " * ", lost ? Style::kAlarm : Style::kPersist);
    const AgentSample& a = w.rates.now;
    std::string what;
    if (w.known) {
      what = fmt::format("{}process {}, {}, {}, up {}", a.kind == "embedded" ? "embedded, " : "",
                         a.pid, a.engine, Count(a.workers, "worker", "workers"),
                         Uptime(static_cast<double>(a.uptime) / 1e9));
    }
    const size_t room = look_.width - std::min(look_.width, Columns(what) + 6);
    name.Add(Tail(w.socket, std::max<size_t>(room, 16)), Style::kBold).Right(what, Style::kDim);
    Put(name);
    if (lost) {
      // As long as it takes: this is what somebody must act on.
      for (const std::string& part : Wrap(w.error, look_.width, 3)) {
        Put(ScreenLine(look_).Add("   ").Add(part, Style::kAlarm));
      }
      return;
    }
    ScreenLine cpu(look_);
    cpu.Add("   CPU ").To(18).Bar(w.rates.cpu_share, kBarCells, Style::kBold);
    cpu.Add(fmt::format("{:>6}  ", Percent(w.rates.cpu_share)));
    const size_t cells = std::min(kSparkCells, w.history.size());
    std::vector<double> values(w.history.end() - static_cast<ptrdiff_t>(cells), w.history.end());
    const double most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    if (most > 0 && values.size() > 1)
      cpu.Spark(values.data(), values.size(), most, Style::kPersist);
    Put(cpu);
    if (a.tasks && a.tasks->Any()) Tasks(*a.tasks);
    if (a.ops) Operators(*a.ops, w.rates.ops);
    if (a.merges) GraphMerges(*a.merges, w.rates.merges);
    if (a.ingest) Ingest(*a.ingest, w.rates.ingest);
    if (a.front) Front(*a.front, w.rates.front.value_or(FrontRates()));
    if (w.rates.sessions.empty()) {
      Put(ScreenLine(look_).Add("   no session: nobody has opened a database on it", Style::kDim));
    }
  }

  void Block(const SessionRates& s) {
    Blank();
    ScreenLine name(look_);
    const std::string who =
        fmt::format("process {}, session {}, {}", s.now.pid, s.now.id, s.now.mover);
    const size_t room = look_.width - std::min(look_.width, Columns(who) + 5);
    name.Add("   ").Add(Tail(NameOf(s.now), std::max<size_t>(room, 16)), Style::kBold);
    if (s.IsInline()) name.Add(" inline", Style::kAlarm);
    Put(name.Right(who, Style::kDim));
    const auto under_way = [](uint64_t n) { return fmt::format("{} under way", n); };
    Stage("fetch", s.fetch_share, Style::kFetch, Rate(s.read), under_way(s.now.fetch_in_flight));
    if (s.now.has_host) {
      Stage("merge-encode", s.host.merging, Style::kMerge, "(host)",
            Count(s.now.HostNumber("outputs_open"), "output open", "outputs open"));
    }
    Stage("persist", s.persist_share, Style::kPersist, Rate(s.written),
          under_way(s.now.persist_in_flight));
    if (!s.now.has_host) return;
    Stage(
        "queue", QueueShare(s.now), Style::kQueue,
        fmt::format("{} of {} M", Mebibytes(static_cast<double>(s.now.HostNumber("queued_bytes"))),
                    Mebibytes(static_cast<double>(s.now.HostNumber("queue_memory")))),
        Count(s.now.HostNumber("queued_requests"), "request", "requests"));
    ScreenLine waits(look_);
    waits.Add("   waits").To(18);
    waits.Add("space ").Add(Percent(s.host.backpressure), WaitStyle(s.host.backpressure));
    waits.Add("  barrier ").Add(Percent(s.host.barrier), WaitStyle(s.host.barrier));
    waits.Add("  fetch ").Add(Percent(s.host.fetch_wait), WaitStyle(s.host.fetch_wait));
    Put(waits);
    ScreenLine syncs(look_);
    syncs.Add("   syncs")
        .To(18)
        .Add(fmt::format("{:.1f}/s  p50 {}  p99 {}", s.syncs, Seconds(s.sync_p50),
                         Seconds(s.sync_p99)));
    Put(syncs);
    ScreenLine lost(look_);
    const uint64_t failovers = s.now.HostNumber("failovers");
    const uint64_t by_host = s.now.HostNumber("bytes_inline");
    lost.Add("   agents").To(18);
    lost.Add(fmt::format("{} lost", failovers), failovers > 0 ? Style::kAlarm : Style::kPlain);
    lost.Add(fmt::format(", {} found again; inline {}", s.now.HostNumber("reconnects"),
                         Bytes(static_cast<double>(by_host))));
    if (s.host_silent > 0) {
      lost.Add(fmt::format("; host silent for {:.0f} s", s.host_silent), Style::kAlarm);
    }
    if (s.now.failed > 0)
      lost.Add(fmt::format("; {} requests failed", s.now.failed), Style::kAlarm);
    Put(lost);
  }
  static size_t BlockHeight(const SessionRates& s) { return s.now.has_host ? 9 : 4; }

  void TableHeader() {
    Put(ScreenLine(look_).Add(
        fmt::format("   {:<18}{:>7}{:>6}{:>6}{:>6}{:>9}{:>9}{:>6}{:>6}{:>7}", "database", "pid",
                    "fetch", "merge", "pers.", "rd MB/s", "wr MB/s", "queue", "wait", "p99"),
        Style::kDim));
  }
  void Row(const SessionRates& s) {
    const auto percent = [](double share) { return fmt::format("{:.0f}%", share * 100); };
    const std::string name = Tail(NameOf(s.now), 18);
    ScreenLine row(look_);
    row.Add("   ").Add(name, s.IsInline() ? Style::kAlarm : Style::kBold).To(21);
    row.Add(fmt::format("{:>7}", s.now.pid));
    row.Add(fmt::format("{:>6}", percent(s.fetch_share)), Style::kFetch);
    row.Add(fmt::format("{:>6}", percent(s.host.merging)), Style::kMerge);
    row.Add(fmt::format("{:>6}", percent(s.persist_share)), Style::kPersist);
    row.Add(fmt::format("{:>9.1f}{:>9.1f}", s.read / 1e6, s.written / 1e6));
    row.Add(fmt::format("{:>6}", percent(QueueShare(s.now))), Style::kQueue);
    const double wait = s.host.backpressure + s.host.barrier + s.host.fetch_wait;
    row.Add(fmt::format("{:>6}", percent(wait)), WaitStyle(wait));
    row.Add(
        fmt::format("{:>7}", s.sync_p99 == 0 ? "-" : fmt::format("{:.0f}ms", s.sync_p99 * 1e3)));
    Put(row);
  }

  void Blank() { lines_.emplace_back(); }
  void Put(const ScreenLine& line) { lines_.push_back(line.text()); }
  size_t used() const { return lines_.size(); }
  bool Fits(size_t lines) const { return height_ == 0 || used() + lines <= height_; }
  std::vector<std::string> Take() {
    if (height_ != 0 && lines_.size() > height_) lines_.resize(height_);
    return std::move(lines_);
  }

 private:
  // A share as a bar; what comes behind it is the caller's.
  ScreenLine ShareLine(const char* name, double share, Style style) const {
    ScreenLine line(look_);
    line.Add("   ").Add(name).To(18).Bar(share, kBarCells, style);
    line.Add(fmt::format("{:>6}", Percent(share)), style).Add("  ");
    return line;
  }
  void PutFailures(ScreenLine& line, uint64_t failed) {
    Put(line.Add(fmt::format(", {} failed", failed), failed > 0 ? Style::kAlarm : Style::kPlain));
  }
  void Tasks(const TaskSample& t) {
    const double share =
        t.most == 0 ? 0 : static_cast<double>(t.running) / static_cast<double>(t.most);
    ScreenLine line = ShareLine("compactions", share, Style::kMerge);
    line.Add(fmt::format("{} of {} run, {} done", t.running, t.most, t.done));
    PutFailures(line, t.failed);
  }
  void Operators(const OpsSample& now, const OpsRates& rates) {
    ScreenLine line = ShareLine("operators", rates.share, Style::kMerge);
    line.Add(Rate(rates.bytes)).Add(fmt::format(", {} wait", now.waiting));
    PutFailures(line, now.failed);
  }
  void GraphMerges(const MergeSample& now, const MergeRates& rates) {
    ScreenLine line = ShareLine("graph merges", rates.cpu_share, Style::kMerge);
    line.Add(Rate(rates.bytes_in)).Add(fmt::format(", {} wait", now.waiting));
    PutFailures(line, now.failed);
  }
  void Ingest(const IngestSample& now, const IngestRates& rates) {
    const double passed = rates.filtered == 0 ? 0 : rates.sent / rates.filtered;
    ScreenLine line = ShareLine("ingest", passed, Style::kFetch);
    line.Add("of ").Add(Rate(rates.filtered)).Add(fmt::format(", {} open", now.open));
    PutFailures(line, now.failed);
  }
  void Front(const FrontSample& now, const FrontRates& rates) {
    ScreenLine line(look_);
    line.Add("   front ").Add(now.service).To(18);
    if (rates.hands_all_over) {
      line.Add(fmt::format("{} handed over", CountRate(rates.requests)));
    } else {
      line.Bar(rates.offloaded, kBarCells, Style::kFetch);
      line.Add(fmt::format("{:>6}", Percent(rates.offloaded)), Style::kFetch);
      line.Add(fmt::format("  of {:.0f}/s", rates.requests));
    }
    Put(line.To(64).Add(Count(now.connections, "connection", "connections")));
    if (!now.KnowsComponents()) return;
    for (std::string& cpu :
         CpuLines(look_, "CPU, front", rates.components, rates.requests, Style::kFetch)) {
      lines_.push_back(std::move(cpu));
    }
  }
  void Stage(const char* name, double share, Style style, const std::string& rate,
             const std::string& more) {
    Put(ShareLine(name, share, style).Add(rate).To(64).Add(more));
  }

  const Look look_;
  const size_t height_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> Render(const std::vector<Watched>& agents, double interval,
                                const std::string& clock, const Look& look, size_t height,
                                bool keys) {
  const size_t body = height == 0 ? 0 : height - std::min<size_t>(height, keys ? 1 : 0);
  Painter out(look, body);
  out.Header(agents, interval, clock);
  size_t blocks = out.used();
  for (const Watched& w : agents) {
    blocks += 4;
    if (!w.error.empty()) continue;
    if (w.rates.now.front) blocks += w.rates.now.front->KnowsComponents() ? 7 : 1;
    if (w.rates.now.ops) ++blocks;
    if (w.rates.now.merges) ++blocks;
    if (w.rates.now.ingest) ++blocks;
    if (w.rates.now.tasks && w.rates.now.tasks->Any()) ++blocks;
    for (const SessionRates& s : w.rates.sessions) blocks += Painter::BlockHeight(s);
  }
  const bool table = body != 0 && blocks > body;
  size_t left_out = 0;
  for (const Watched& w : agents) {
    out.Agent(w);
    if (!w.error.empty()) continue;
    if (table && !w.rates.sessions.empty()) out.TableHeader();
    for (const SessionRates& s : w.rates.sessions) {
      if (!table) {
        out.Block(s);
      } else if (out.Fits(2)) {  // and the line that says how many are left out
        out.Row(s);
      } else {
        ++left_out;
      }
    }
  }
  if (left_out > 0) {
    out.Put(ScreenLine(look).Add(fmt::format("   and {}; make the window higher",
                                             Count(left_out, "more session", "more sessions")),
                                 Style::kDim));
  }
  std::vector<std::string> lines = out.Take();
  if (keys && height > 0) {
    lines.resize(height - 1);
    lines.push_back(ScreenLine(look).Add(" q quits", Style::kDim).text());
  }
  return lines;
}

nlohmann::json ToJson(const std::vector<Watched>& agents) {
  using nlohmann::json;
  json out = {{"format", "pulse-top"}, {"version", 1}, {"agents", json::array()}};
  for (const Watched& w : agents) {
    json agent = {{"socket", w.socket}};
    if (!w.error.empty()) {
      agent["error"] = w.error;
      out["agents"].push_back(std::move(agent));
      continue;
    }
    const AgentRates& r = w.rates;
    agent["kind"] = r.now.kind;
    agent["pid"] = r.now.pid;
    agent["engine"] = r.now.engine;
    agent["workers"] = r.now.workers;
    agent["uptime_seconds"] = static_cast<double>(r.now.uptime) / 1e9;
    agent["interval_seconds"] = r.seconds;
    agent["cpu_share"] = r.cpu_share;
    if (r.now.front) {
      const FrontRates front = r.front.value_or(FrontRates());
      agent["front"] = {
          {"service", r.now.front->service},       {"connections", r.now.front->connections},
          {"held_bytes", r.now.front->held_bytes}, {"measured", r.front.has_value()},
          {"requests_per_second", front.requests}, {"offloaded_share", front.offloaded},
          {"cpu_share", front.cpu_share}};
      for (size_t i = 0; i < kCpuComponentNames.size(); ++i) {
        agent["front"]["cpu"][kCpuComponentNames[i]] = {{"share", front.components[i]}};
      }
    }
    if (r.now.tasks) {
      agent["tasks"] = {{"most", r.now.tasks->most},
                        {"running", r.now.tasks->running},
                        {"done", r.now.tasks->done},
                        {"failed", r.now.tasks->failed},
                        {"refused", r.now.tasks->refused}};
    }
    if (r.now.ops) {
      agent["ops"] = {{"threads", r.now.ops->threads},   {"running", r.now.ops->running},
                      {"waiting", r.now.ops->waiting},   {"chunks", r.now.ops->chunks},
                      {"failed", r.now.ops->failed},     {"chunks_per_second", r.ops.chunks},
                      {"bytes_per_second", r.ops.bytes}, {"busy_share", r.ops.share}};
    }
    if (r.now.merges) {
      agent["graph"] = {{"merges", r.now.merges->merges},
                        {"failed", r.now.merges->failed},
                        {"refused", r.now.merges->refused},
                        {"running", r.now.merges->running},
                        {"waiting", r.now.merges->waiting},
                        {"merges_per_second", r.merges.merges},
                        {"input_bytes_per_second", r.merges.bytes_in},
                        {"output_bytes_per_second", r.merges.bytes_out},
                        {"cpu_share", r.merges.cpu_share}};
    }
    if (r.now.ingest) {
      agent["ingest"] = {{"streams", r.now.ingest->streams},
                         {"failed", r.now.ingest->failed},
                         {"open", r.now.ingest->open},
                         {"streams_per_second", r.ingest.streams},
                         {"received_bytes_per_second", r.ingest.received},
                         {"filtered_bytes_per_second", r.ingest.filtered},
                         {"sent_bytes_per_second", r.ingest.sent}};
    }
    agent["sessions"] = json::array();
    for (const SessionRates& s : r.sessions) {
      json j = {{"id", s.now.id},
                {"pid", s.now.pid},
                {"service", s.now.service},
                {"mover", s.now.mover},
                {"databases", s.now.databases},
                {"measured", s.measured},
                {"inline", s.IsInline()},
                {"host_silent_seconds", s.host_silent},
                {"fetch_share", s.fetch_share},
                {"persist_share", s.persist_share},
                {"read_bytes_per_second", s.read},
                {"written_bytes_per_second", s.written},
                {"requests_per_second", s.requests},
                {"requests_failed", s.now.failed},
                {"fetch_in_flight", s.now.fetch_in_flight},
                {"persist_in_flight", s.now.persist_in_flight},
                {"syncs_per_second", s.syncs},
                {"sync_p50_seconds", s.sync_p50},
                {"sync_p99_seconds", s.sync_p99}};
      if (s.now.has_host) {
        j["host"] = {{"merging_threads", s.host.merging},
                     {"fetched_bytes_per_second", s.host.fetched},
                     {"persisted_bytes_per_second", s.host.persisted},
                     {"inline_bytes_per_second", s.host.inline_written},
                     {"backpressure_share", s.host.backpressure},
                     {"barrier_share", s.host.barrier},
                     {"fetch_wait_share", s.host.fetch_wait}};
        for (const char* name : {"outputs_open", "streams", "queued_bytes", "queued_requests",
                                 "queue_memory", "failovers", "reconnects", "bytes_inline"}) {
          j["host"][name] = s.now.HostNumber(name);
        }
      }
      agent["sessions"].push_back(std::move(j));
    }
    out["agents"].push_back(std::move(agent));
  }
  return out;
}

}  // namespace pulse::top
