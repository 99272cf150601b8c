// `pulse top`: what agents, in-memory stores and graph servers do, as it happens.
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/top/kv_connection.h"
#include "apps/pulse/top/kv_view.h"
#include "apps/pulse/top/metrics_request.h"
#include "apps/pulse/top/terminal.h"
#include "apps/pulse/top/view.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/json.h"
#include "channel/status_message.h"

namespace pulse {
namespace {

using top::KvConnection;
using top::Look;
using top::Terminal;
using top::Watched;
using top::WatchedGraph;
using top::WatchedKv;

// Of an agent that a user has started, and of the unit pulse-agent@USER.
constexpr char kUsualSocket[] = "/run/pulse/agent.sock";
std::string UsualSocket() {
  const passwd* const user = getpwuid(geteuid());
  const std::string of_unit = absl::StrCat("/run/pulse-", user ? user->pw_name : "", "/agent.sock");
  const bool only_that = access(kUsualSocket, F_OK) != 0 && access(of_unit.c_str(), F_OK) == 0;
  return only_that ? of_unit : kUsualSocket;
}
constexpr size_t kHistory = 240;
// An agent answers at once; one that hangs must not keep the others, nor the keys, waiting for
// long.
constexpr int kPatienceMs = 1000;

struct TopArgs {
  std::vector<std::string> sockets;
  std::vector<std::string> servers;
  std::vector<std::string> graphs;
  double interval = 1;
  bool once = false;
  bool json = false;
};

std::string Clock() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
}

std::string WhyNot(const std::string& socket, const absl::Status& st) {
  const int err = ErrnoOf(st);
  const std::string remedy = absl::StrCat("start one with: pulse agent --socket ", socket,
                                          "; for an agent within a program, open the database with "
                                          "pulse://?status=PATH, and watch PATH");
  if (err == ENOENT) return absl::StrCat("no agent at ", socket, ": nothing is there; ", remedy);
  if (std::error_code ec; err == ECONNREFUSED && !std::filesystem::is_socket(socket, ec)) {
    return absl::StrCat("no agent at ", socket,
                        ": it is no socket; give the path that the agent was started with");
  }
  if (err == ECONNREFUSED) {
    return absl::StrCat("no agent at ", socket, ": the one that made the socket has ended; ",
                        remedy);
  }
  if (err == EACCES || err == EPERM) {
    return absl::StrCat("the agent at ", socket,
                        " cannot be asked: its socket is its user's alone; run this as that user, "
                        "or as root");
  }
  return std::string(st.message());
}

void Ask(Watched* w) {
  const auto text = AskStatus(w->socket, kPatienceMs);
  auto sample = text.ok() ? top::ParseStatus(*text) : text.status();
  if (!sample.ok()) {
    w->error = text.ok() ? absl::StrCat("the agent at ", w->socket, ": ", sample.status().message())
                         : WhyNot(w->socket, sample.status());
    w->error = CleanText(w->error);
    return;
  }
  w->error.clear();
  // The sample before, put together again from what is kept of it.
  top::AgentSample before = w->rates.now;
  for (const top::SessionRates& s : w->rates.sessions) before.sessions.push_back(s.now);
  top::AgentRates rates = top::Compare(w->known ? &before : nullptr, *std::move(sample),
                                       w->known ? &w->rates : nullptr);
  w->rates = std::move(rates);
  w->known = true;
  if (w->rates.seconds == 0) return;
  double written = 0;
  for (const top::SessionRates& s : w->rates.sessions) written += s.written;
  w->history.push_back(written);
  if (w->history.size() > kHistory) w->history.pop_front();
}

// A server that is watched, and the way to it.
struct Server {
  std::unique_ptr<KvConnection> connection;
  int64_t asked = 0;  // NowNanos, when the last reply came
};

// A graph server that is watched, and how.
struct Metrics {
  std::string address;
  int64_t asked = 0;  // as above
};

// All that is watched; `servers` and `kv` belong together, and so do `metrics` and `graphs`.
struct All {
  std::vector<Watched> agents;
  std::vector<WatchedKv> kv;
  std::vector<Server> servers;
  std::vector<WatchedGraph> graphs;
  std::vector<Metrics> metrics;
};

void AskServer(Server* server, WatchedKv* w) {
  const auto text = server->connection->Info(kPatienceMs);
  const int64_t now = NowNanos();
  auto sample = text.ok() ? top::ParseInfo(*text) : text.status();
  if (!sample.ok()) {
    w->error = CleanText(text.ok() ? absl::StrCat(w->address, ": ", sample.status().message())
                                   : std::string(text.status().message()));
    return;
  }
  w->error.clear();
  const top::KvSample before = w->rates.now;
  w->rates = top::CompareKv(w->known ? &before : nullptr, *std::move(sample),
                            static_cast<double>(now - server->asked) * 1e-9);
  server->asked = now;
  w->known = true;
}

void AskGraph(Metrics* metrics, WatchedGraph* w) {
  const auto text = top::AskMetrics(metrics->address, kPatienceMs);
  const int64_t now = NowNanos();
  const auto sample = text.ok() ? top::ParseGraphMetrics(*text) : text.status();
  if (!sample.ok()) {
    w->error = CleanText(text.ok() ? absl::StrCat(w->address, ": ", sample.status().message())
                                   : std::string(text.status().message()));
    return;
  }
  w->error.clear();
  const top::GraphSample before = w->rates.now;
  w->rates = top::CompareGraph(w->known ? &before : nullptr, *sample,
                               static_cast<double>(now - metrics->asked) * 1e-9);
  metrics->asked = now;
  w->known = true;
}

void AskAll(All* all) {
  for (Watched& w : all->agents) Ask(&w);
  for (size_t i = 0; i < all->kv.size(); ++i) AskServer(&all->servers[i], &all->kv[i]);
  for (size_t i = 0; i < all->graphs.size(); ++i) AskGraph(&all->metrics[i], &all->graphs[i]);
}

// Why none of them does.
absl::Status AnyAnswers(const All& all) {
  std::string why;
  const auto answers = [&why](const auto& watched) {
    for (const auto& w : watched) {
      if (w.error.empty()) return true;
      absl::StrAppend(&why, why.empty() ? "" : "\npulse: ", w.error);
    }
    return false;
  };
  if (answers(all.agents) || answers(all.kv) || answers(all.graphs)) return absl::OkStatus();
  return absl::UnavailableError(why);
}

std::vector<std::string> Picture(const All& all, const TopArgs& args, const Look& look,
                                 size_t height, bool keys) {
  return top::RenderAll(all.agents, all.kv, all.graphs, args.interval, Clock(), look, height, keys);
}

void Print(const All& all, const TopArgs& args, const Look& look) {
  if (args.json) {
    nlohmann::json json = top::ToJson(all.agents);
    if (!all.kv.empty()) json["kv"] = top::ToJson(all.kv);
    if (!all.graphs.empty()) json["graph"] = top::ToJson(all.graphs);
    std::printf("%s\n",
                json.dump(args.once ? 2 : -1, ' ', false, nlohmann::json::error_handler_t::replace)
                    .c_str());
  } else {
    for (const std::string& line : Picture(all, args, look, /*height=*/0, /*keys=*/false)) {
      std::printf("%s\n", line.c_str());
    }
    if (!args.once) std::printf("\n");
  }
  std::fflush(stdout);
}

All Watch(const TopArgs& args) {
  All all;
  for (const std::string& socket : args.sockets) {
    all.agents.emplace_back();
    all.agents.back().socket = socket;
  }
  // As redis-cli takes it.
  const char* password = std::getenv("REDISCLI_AUTH");
  for (const std::string& address : args.servers) {
    all.kv.emplace_back();
    all.kv.back().address = CleanText(address);
    all.servers.push_back(
        {std::make_unique<KvConnection>(address, password == nullptr ? "" : password)});
  }
  for (const std::string& address : args.graphs) {
    all.graphs.emplace_back();
    all.graphs.back().address = CleanText(address);
    all.metrics.push_back({address});
  }
  return all;
}

absl::Status RunTop(TopArgs args) {
  if (args.sockets.empty() && args.servers.empty() && args.graphs.empty())
    args.sockets.push_back(UsualSocket());
  All all = Watch(args);
  AskAll(&all);
  PULSE_RETURN_IF_ERROR(AnyAnswers(all));
  Look look;
  const int interval_ms = static_cast<int>(args.interval * 1000);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const bool screen_obeys = terminal && HasTerminalSequences();
  look.blocks = top::HasUnicode();
  look.colours = screen_obeys && std::getenv("NO_COLOR") == nullptr;
  if (terminal) look.width = Terminal::SizeOf(STDOUT_FILENO).width;
  if (args.once || args.json || !screen_obeys || isatty(STDIN_FILENO) != 1) {
    do {
      usleep(static_cast<useconds_t>(interval_ms) * 1000);
      AskAll(&all);
      Print(all, args, look);
    } while (!args.once && std::ferror(stdout) == 0);
    return AnyAnswers(all);
  }
  int signal = 0;
  {
    PULSE_ASSIGN_OR_RETURN(auto screen, Terminal::Open());
    Terminal::Event event = Terminal::Event::kTime;
    // The first rates come soon.
    int wait_ms = std::min(interval_ms, 300);
    do {
      const Terminal::Size size = Terminal::SizeOf(STDOUT_FILENO);
      look.width = size.width;
      screen->Draw(Picture(all, args, look, size.height, /*keys=*/true));
      event = screen->Wait(wait_ms);
      if (event != Terminal::Event::kTime) continue;
      AskAll(&all);
      wait_ms = interval_ms;
    } while (event != Terminal::Event::kQuit);
    signal = screen->signal();
  }
  if (signal != 0) raise(signal);  // as if it had not been caught
  return absl::OkStatus();
}

}  // namespace

void AddTopCommand(CLI::App& app) {
  auto args = std::make_shared<TopArgs>();
  CLI::App* cmd = app.add_subcommand(
      "top",
      "Show what agents do, drawn anew each second: for each database how busy the stages fetch,\n"
      "merge-encode and persist are, queues, rates, waits and syncs; for each pulse kv its\n"
      "requests, memory, design, and where its CPU time goes; for each graph server its\n"
      "statements, transactions, memory, flushes and merges. q quits.");
  cmd->add_option(
      "--socket", args->sockets,
      absl::StrCat("an agent's socket, or the status=PATH of a program with an embedded\n"
                   "agent; may be given more than once (default: ",
                   kUsualSocket, ", or that of the unit pulse-agent@USER)"));
  cmd->add_option("--kv", args->servers,
                  "HOST:PORT of a pulse kv or pulse serve, or unix:PATH; may be given more than\n"
                  "once. Its password, if it has one, is taken from REDISCLI_AUTH");
  cmd->add_option("--graph", args->graphs,
                  "HOST:PORT, or PORT, of the --metrics of a pulse graph serve; may be given more\n"
                  "than once");
  cmd->add_option("--interval", args->interval, "seconds between two pictures")
      ->check(NotNan)
      ->check(CLI::Range(0.2, 3600.0))
      ->capture_default_str();
  cmd->add_flag("--once", args->once, "print one picture, of one interval, and end");
  cmd->add_flag("--json", args->json, "print JSON, a line for each interval");
  cmd->callback([args] { Finish(RunTop(*args)); });
}

}  // namespace pulse
