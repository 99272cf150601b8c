// `pulse top --graph` without a graph: what it makes of two answers, the picture of it, and servers
// that answer something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/pulse/top/graph_sample.h"
#include "apps/pulse/top/graph_view.h"
#include "apps/pulse/top/kv_view.h"
#include "apps/pulse/top/metrics_request.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/testing.h"
#include "fmt/format.h"
#include "net/address.h"

namespace pulse::top {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a server says `at` seconds after its start, having done `at` times the same.
std::string MetricsAt(int at) {
  std::string text =
      "# HELP pulse_graph_connections Connections of Bolt clients.\n"
      "# TYPE pulse_graph_connections gauge\n";
  const std::pair<const char*, double> figures[] = {
      {"pulse_graph_connections", 7},
      {"pulse_graph_statements_total{kind=\"read\"}", 900. * at},
      {"pulse_graph_statements_total{kind=\"write\"}", 100. * at},
      {"pulse_graph_statements_total{kind=\"schema\"}", 0},
      {"pulse_graph_statements_failed_total{reason=\"compile\"}", 1. * at},
      {"pulse_graph_statements_failed_total{reason=\"time\"}", 2. * at},
      {"pulse_graph_statement_duration_seconds_count", 1000. * at},
      {"pulse_graph_statement_duration_seconds_sum", 2.5 * at},
      {"pulse_graph_statement_duration_seconds_bucket{le=\"+Inf\"}", 1000. * at},
      {"pulse_graph_rows_total", 20'000. * at},
      {"pulse_graph_conflicts_total", 4. * at},
      {"pulse_graph_transactions_open", 3},
      {"pulse_graph_oldest_transaction_seconds", 90},
      {"pulse_graph_process_memory_bytes", 1 << 30},
      {"pulse_graph_memory_bytes{of=\"nodes\"}", 256 << 20},
      {"pulse_graph_memory_bytes{of=\"versions\"}", 128 << 20},
      {"pulse_graph_memory_bytes{of=\"chunks\"}", 128 << 20},
      {"pulse_graph_process_cpu_seconds_total", 0.5 * at},
      {"pulse_graph_runs", 12},
      {"pulse_graph_run_bytes", 3e9},
      {"pulse_graph_log_bytes", 64 << 20},
      {"pulse_graph_flushes_total", 1. * at},
      {"pulse_graph_flushed_bytes_total", 30e6 * at},
      {"pulse_graph_compactions_total", 1. * at},
      {"pulse_graph_compacted_bytes_total", 90e6 * at},
      {"pulse_graph_compactions_on_agent_total", 1. * at},
      {"pulse_graph_maintenance_failed", 0}};
  for (const auto& [name, value] : figures) text += fmt::format("{} {:.10g}\n", name, value);
  return absl::StrCat(text, "exposer_transferred_bytes_total 12\n");
}

GraphRates GraphBetween(int before, int now, double seconds) {
  const GraphSample first = ParseGraphMetrics(MetricsAt(before)).value();
  return CompareGraph(&first, ParseGraphMetrics(MetricsAt(now)).value(), seconds);
}

WatchedGraph WatchedOf(const GraphRates& rates) {
  return {.address = "127.0.0.1:9470", .error = "", .rates = rates, .known = true};
}

std::string PictureOf(const WatchedGraph& graph) {
  return absl::StrJoin(RenderAll({}, {}, {graph}, 1, "12:00:00", {}, 0, false), "\n");
}

TEST(GraphTopTest, CompareGraph_TwoAnswers_GiveRates) {
  const GraphRates r = GraphBetween(10, 12, 2);
  EXPECT_EQ(r.seconds, 2);
  EXPECT_DOUBLE_EQ(r.statements, 1000);
  EXPECT_DOUBLE_EQ(r.writes, 100);
  EXPECT_DOUBLE_EQ(r.failed, 3);  // of all reasons
  EXPECT_DOUBLE_EQ(r.mean_seconds, 0.0025);
  EXPECT_DOUBLE_EQ(r.flushed_bytes, 30e6);
  EXPECT_DOUBLE_EQ(r.compacted_bytes, 90e6);
  EXPECT_DOUBLE_EQ(r.cpu_share, 0.5);
  EXPECT_EQ(r.now.store_memory, 512 << 20);
}

TEST(GraphTopTest, CompareGraph_FirstOrAnotherProcess_MeasuresNothing) {
  EXPECT_EQ(CompareGraph(nullptr, ParseGraphMetrics(MetricsAt(5)).value(), 1).seconds, 0);
  const GraphRates r = GraphBetween(500, 1, 1);
  EXPECT_EQ(r.seconds, 0);
  EXPECT_EQ(r.statements, 0);
}

TEST(GraphTopTest, Picture_MeasuredServer_HasItsFigures) {
  const std::string picture = PictureOf(WatchedOf(GraphBetween(10, 11, 1)));
  EXPECT_THAT(picture, AllOf(HasSubstr("1 server"), HasSubstr("127.0.0.1:9470"),
                             HasSubstr("graph, 7 clients"), HasSubstr("1000/s, 100/s write"),
                             HasSubstr("mean 2.5 ms"), HasSubstr("3/s failed")));
  EXPECT_THAT(picture, AllOf(HasSubstr("3 open, the oldest for 90.0 s"), HasSubstr("4/s conflicts"),
                             HasSubstr("1.0 GiB"), HasSubstr("of the store 512.0 MiB")));
  EXPECT_THAT(picture,
              AllOf(HasSubstr("12, 2.8 GiB; log 64.0 MiB"), HasSubstr("30.0 MB/s  merge 90.0 MB/s"),
                    HasSubstr("so far 11 flushes, 11 merges (11"), HasSubstr("50 %  of one CPU"),
                    Not(HasSubstr("the last one failed"))));
  GraphRates broken = GraphBetween(10, 11, 1);
  broken.now.maintenance_failed = true;
  EXPECT_THAT(PictureOf(WatchedOf(broken)), HasSubstr("the last one failed"));
}

TEST(GraphTopTest, Picture_LostServer_SaysWhy) {
  WatchedGraph lost = WatchedOf(GraphBetween(1, 2, 1));
  lost.error = "no server at 127.0.0.1:9470: Connection refused";
  EXPECT_THAT(PictureOf(lost), AllOf(HasSubstr("0 servers"), HasSubstr("Connection refused"),
                                     Not(HasSubstr("statements"))));
}

TEST(GraphTopTest, Picture_AnyWindow_Fits) {
  const WatchedGraph graph = WatchedOf(GraphBetween(10, 11, 1));
  for (const size_t width : {size_t{1}, size_t{40}, size_t{80}}) {
    for (const size_t height : {size_t{1}, size_t{5}, size_t{24}}) {
      Look look;
      look.width = width;
      const auto lines = RenderAll({}, {}, {graph, graph}, 1, "12:00:00", look, height, true);
      EXPECT_EQ(lines.size(), height);
      for (const std::string& line : lines) EXPECT_LE(Columns(line), width) << line;
    }
  }
}

TEST(GraphTopTest, ToJson_MeasuredAndLost_HasTheSame) {
  WatchedGraph lost;
  lost.address = "b";
  lost.error = "gone";
  const nlohmann::json json =
      ToJson(std::vector<WatchedGraph>{WatchedOf(GraphBetween(10, 11, 1)), lost});
  ASSERT_EQ(json.size(), 2u);
  EXPECT_DOUBLE_EQ(json[0]["statements_per_second"], 1000);
  EXPECT_EQ(json[0]["transactions_open"], 3);
  EXPECT_EQ(json[0]["resident_bytes"], 1 << 30);
  EXPECT_EQ(json[0]["maintenance_failed"], false);
  EXPECT_EQ(json[1], (nlohmann::json{{"address", "b"}, {"error", "gone"}}));
}

TEST(GraphTopTest, Parse_MissingOrNoNumber_NamesIt) {
  EXPECT_THAT(std::string(ParseGraphMetrics("").status().message()),
              HasSubstr("this is no graph server"));
  EXPECT_THAT(std::string(ParseGraphMetrics("pulse_kv_requests_total 4\n").status().message()),
              HasSubstr("this is no graph server"));
  EXPECT_THAT(std::string(ParseGraphMetrics("<html>hello</html>").status().message()),
              HasSubstr("no metrics: <html>hello</html>"));
  const std::string good = MetricsAt(3);
  const std::string without = absl::StrReplaceAll(good, {{"pulse_graph_runs 12\n", ""}});
  EXPECT_THAT(std::string(ParseGraphMetrics(without).status().message()),
              HasSubstr("no pulse_graph_runs"));
  for (const char* value : {"nan", "-3", "inf"}) {
    const std::string bad = absl::StrReplaceAll(
        good, {{"pulse_graph_runs 12\n", absl::StrCat("pulse_graph_runs ", value, "\n")}});
    EXPECT_THAT(std::string(ParseGraphMetrics(bad).status().message()),
                HasSubstr("pulse_graph_runs is no count"))
        << value;
  }
}

TEST(GraphTopTest, Parse_DamagedAnswers_AreErrorsOrPictures) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::string good = MetricsAt(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good.substr(0, random() % 3 == 0 ? random() % good.size() : good.size());
    for (size_t changes = random() % 4; changes > 0 && !bad.empty(); --changes) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const auto sample = ParseGraphMetrics(bad);
    if (!sample.ok()) continue;
    const WatchedGraph w = WatchedOf(CompareGraph(nullptr, *sample, 1));
    EXPECT_FALSE(PictureOf(w).empty());
    EXPECT_FALSE(ToJson(std::vector<WatchedGraph>{w}).dump().empty());
  }
}

// Gives `reply` to the first client, and ends.
class OneReply {
 public:
  explicit OneReply(std::string reply) {
    const auto address = net::ParseAddress("127.0.0.1:0");
    listener_ = net::Listen(*address, 1).value();
    port_ = net::LocalAddress(listener_.get()).port();
    thread_ = std::thread([this, reply = std::move(reply)] {
      int fd = -1;
      testing_util::Eventually(
          [&] { return (fd = accept(listener_.get(), nullptr, nullptr)) >= 0; });
      const UniqueFd client(fd);
      size_t sent = 0;
      while (sent < reply.size()) {
        const ssize_t n =
            send(client.get(), reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
      shutdown(client.get(), SHUT_WR);
      char bytes[4096];
      while (recv(client.get(), bytes, sizeof(bytes), 0) > 0) {
      }
    });
  }
  ~OneReply() { thread_.join(); }
  std::string address() const { return std::to_string(port_); }

 private:
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

TEST(GraphTopTest, AskMetrics_ServersOfEveryKind_GiveTextOrAnError) {
  {
    OneReply server("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + MetricsAt(1));
    EXPECT_EQ(AskMetrics(server.address(), 10'000).value(), MetricsAt(1));
  }
  const std::pair<std::string, const char*> bad[] = {
      {"HTTP/1.1 404 Not Found\r\n\r\n", "has no metrics (status 404)"},
      {"+PONG\r\n", "does not speak HTTP"},
      {"", "does not speak HTTP"},
      {"HTTP/1.1 200 OK\r\n", "does not speak HTTP"},
      {"HTTP/1.", "does not speak HTTP"},
      {"HTTP/1.1 200 OK\r\n\r\n" + std::string(5 << 20, 'x'), "says too much"}};
  for (const auto& [reply, error] : bad) {
    OneReply server(reply);
    const auto text = AskMetrics(server.address(), 10'000);
    ASSERT_FALSE(text.ok()) << reply.substr(0, 40);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(error));
  }
  {
    const UniqueFd listener = net::Listen(*net::ParseAddress("127.0.0.1:0"), 1).value();
    const std::string port = std::to_string(net::LocalAddress(listener.get()).port());
    // Connected by the kernel, and never answered.
    EXPECT_EQ(AskMetrics(port, 1).status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  // Nobody listens, and nobody else gets the port.
  const UniqueFd bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(bound.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
  const std::string port = std::to_string(net::LocalAddress(bound.get()).port());
  EXPECT_THAT(std::string(AskMetrics(port, 1000).status().message()),
              HasSubstr("start one with: pulse graph serve DB --metrics PORT"));
}

}  // namespace
}  // namespace pulse::top
