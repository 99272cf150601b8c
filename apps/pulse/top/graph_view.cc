#include "apps/pulse/top/graph_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/pulse/top/units.h"
#include "apps/pulse/util/terminal_text.h"

namespace pulse::top {
namespace {

// A transaction that is open for longer holds back what is kept of old states.
constexpr double kLongSeconds = 60;

uint64_t Whole(double count) { return static_cast<uint64_t>(std::min(count, 1e18)); }

}  // namespace

std::vector<std::string> GraphLines(const WatchedGraph& w, const Look& look) {
  std::vector<std::string> lines = {""};
  const auto put = [&lines](const ScreenLine& line) { lines.push_back(line.text()); };
  const bool lost = !w.error.empty();
  const GraphRates& r = w.rates;
  const GraphSample& s = r.now;
  ScreenLine name(look);
  name.Add(lost ? " ! " : look.blocks ? " ● " : " * ", lost ? Style::kAlarm : Style::kPersist);
  const std::string what =
      w.known ? fmt::format("graph, {}", Count(Whole(s.connections), "client", "clients")) : "";
  const size_t room = look.width - std::min(look.width, Columns(what) + 6);
  put(name.Add(Tail(w.address, std::max<size_t>(room, 16)), Style::kBold).Right(what, Style::kDim));
  if (lost) {
    for (const std::string& part : Wrap(w.error, look.width, 3)) {
      put(ScreenLine(look).Add("   ").Add(part, Style::kAlarm));
    }
    return lines;
  }
  ScreenLine statements(look);
  statements.Add("   statements ").To(18).Add(CountRate(r.statements), Style::kBold);
  statements.Add(fmt::format(", {} write  mean {}  {} rows", CountRate(r.writes),
                             Seconds(r.mean_seconds), CountRate(r.rows)));
  if (r.failed > 0) statements.Add(fmt::format("  {} failed", CountRate(r.failed)), Style::kAlarm);
  put(statements);
  ScreenLine open(look);
  open.Add("   transactions ").To(18).Add(fmt::format("{} open", Whole(s.transactions)));
  if (s.transactions > 0) {
    open.Add(fmt::format(", the oldest for {}", Seconds(s.oldest_seconds)),
             s.oldest_seconds > kLongSeconds ? Style::kAlarm : Style::kPlain);
  }
  if (r.conflicts > 0) open.Add(fmt::format("  {} conflicts", CountRate(r.conflicts)));
  put(open);
  put(ScreenLine(look)
          .Add("   memory ")
          .To(18)
          .Add(Bytes(s.resident))
          .Add(fmt::format(", of the store {}", Bytes(s.store_memory))));
  put(ScreenLine(look)
          .Add("   runs ")
          .To(18)
          .Add(fmt::format("{}, {}; log {}", Whole(s.runs), Bytes(s.run_bytes),
                           Bytes(s.log_bytes))));
  ScreenLine flush(look);
  flush.Add("   flush ").To(18).Add(Rate(r.flushed_bytes), Style::kPersist);
  flush.Add("  merge ").Add(Rate(r.compacted_bytes), Style::kMerge);
  if (s.maintenance_failed) flush.Add("  the last one failed", Style::kAlarm);
  flush.Add(fmt::format("  so far {}, {}", Count(Whole(s.flushes), "flush", "flushes"),
                        Count(Whole(s.compactions), "merge", "merges")));
  if (s.compactions_on_agent > 0) {
    flush.Add(fmt::format(" ({} on agent)", Whole(s.compactions_on_agent)));
  }
  put(flush);
  put(ScreenLine(look)
          .Add("   CPU ")
          .To(18)
          .Bar(std::min(r.cpu_share, 1.0), kBarCells, Style::kMerge)
          .Add(fmt::format("{:>6}", Percent(r.cpu_share)), Style::kMerge)
          .Add("  of one CPU"));
  return lines;
}

nlohmann::json ToJson(const std::vector<WatchedGraph>& graphs) {
  using nlohmann::json;
  json all = json::array();
  for (const WatchedGraph& w : graphs) {
    json graph = {{"address", w.address}};
    if (!w.error.empty()) {
      graph["error"] = w.error;
      all.push_back(std::move(graph));
      continue;
    }
    const GraphRates& r = w.rates;
    const GraphSample& s = r.now;
    graph.update({{"interval_seconds", r.seconds},
                  {"connections", Whole(s.connections)},
                  {"statements_per_second", r.statements},
                  {"reads_per_second", r.reads},
                  {"writes_per_second", r.writes},
                  {"failed_per_second", r.failed},
                  {"conflicts_per_second", r.conflicts},
                  {"rows_per_second", r.rows},
                  {"mean_statement_seconds", r.mean_seconds},
                  {"transactions_open", Whole(s.transactions)},
                  {"oldest_transaction_seconds", s.oldest_seconds},
                  {"resident_bytes", Whole(s.resident)},
                  {"store_memory_bytes", Whole(s.store_memory)},
                  {"runs", Whole(s.runs)},
                  {"run_bytes", Whole(s.run_bytes)},
                  {"log_bytes", Whole(s.log_bytes)},
                  {"flushed_bytes_per_second", r.flushed_bytes},
                  {"compacted_bytes_per_second", r.compacted_bytes},
                  {"flushes", Whole(s.flushes)},
                  {"compactions", Whole(s.compactions)},
                  {"compactions_on_agent", Whole(s.compactions_on_agent)},
                  {"maintenance_failed", s.maintenance_failed},
                  {"cpu_share", r.cpu_share}});
    all.push_back(std::move(graph));
  }
  return all;
}

}  // namespace pulse::top
