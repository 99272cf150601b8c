#include "apps/pulse/graph/page_server.h"

#include <civetweb.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/graph/result_output.h"
#include "apps/pulse/util/option_values.h"
#include "base/clock.h"
#include "base/errors.h"
#include "services/graph/model/text.h"
#include "services/graph/session/failure.h"

namespace pulse {
namespace {

using cypher::Value;
using nlohmann::ordered_json;

constexpr char kCommonHeaders[] =
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n";

constexpr uint16_t kHttpPort = 80;  // which browsers leave out
// A client that reads or writes a byte at a time, each before the time of a request is over, would
// hold one of the threads for days. The library waits until all that is asked for is there.
constexpr int64_t kTransferNanos = 10'000'000'000;
constexpr int64_t kTransferNanosOfByte = 10'000;  // 100 kB/s
constexpr int64_t kDropNanos = 2'000'000'000;
constexpr size_t kReadBytes = 16;
constexpr size_t kWriteBytes = size_t{64} << 10;

int64_t TransferEnd(size_t bytes) {
  return NowNanos() + kTransferNanos + kTransferNanosOfByte * static_cast<int64_t>(bytes);
}

std::string ErrorJson(std::string_view code, std::string_view message) {
  return Dump({{"error", {{"code", std::string(code)}, {"message", std::string(message)}}}});
}

std::string_view PhraseOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    default:
      return "Error";
  }
}

void Send(mg_connection* connection, int code, std::string_view type, std::string_view more,
          std::string_view body, bool with_body = true) {
  std::string head =
      absl::StrCat("HTTP/1.1 ", code, " ", cypher::Absl(PhraseOf(code)), "\r\n",
                   "Content-Type: ", cypher::Absl(type), "\r\n", "Content-Length: ", body.size(),
                   "\r\n", kCommonHeaders, cypher::Absl(more), "\r\n");
  // A client that has gone gets nothing; there is nobody to tell.
  if (mg_write(connection, head.data(), head.size()) <= 0 || !with_body) return;
  const int64_t end = TransferEnd(body.size());
  while (!body.empty() && NowNanos() < end) {
    const int n = mg_write(connection, body.data(), std::min(body.size(), kWriteBytes));
    if (n <= 0) return;
    body.remove_prefix(static_cast<size_t>(n));
  }
}

// Brackets that are open at once, in JSON. Each costs some hundred times its byte.
int DepthOf(std::string_view json) {
  int depth = 0, most = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') quoted = !quoted;
    if (quoted) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return most;
}

void Refuse(mg_connection* connection, int code, std::string_view message,
            std::string_view more = "") {
  Send(connection, code, "application/json", more, ErrorJson("Http", message));
}

// The values of a header, by any case of its name.
std::vector<std::string_view> HeadersOf(const mg_request_info& request, std::string_view name) {
  std::vector<std::string_view> values;
  for (int i = 0; i < request.num_headers; ++i) {
    if (absl::EqualsIgnoreCase(request.http_headers[i].name, cypher::Absl(name))) {
      values.emplace_back(request.http_headers[i].value);
    }
  }
  return values;
}

// Integers that a browser would round are texts.
void KeepIntegers(ordered_json* json) {
  constexpr int64_t kMost = int64_t{1} << 53;
  if (json->is_number_unsigned()) {
    if (json->get<uint64_t>() > static_cast<uint64_t>(kMost)) *json = json->dump();
  } else if (json->is_number_integer()) {
    const auto number = json->get<int64_t>();
    if (number > kMost || number < -kMost) *json = json->dump();
  } else if (json->is_structured()) {
    for (auto& item : *json) KeepIntegers(&item);
  }
}

// Whether a number without a fraction or exponent is beyond 64 bits: the parser would round it.
bool HasWideInteger(std::string_view json) {
  for (size_t at = 0; at < json.size(); ++at) {
    if (json[at] == '"') {
      for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
    } else if (json[at] == '-' || absl::ascii_isdigit(json[at])) {
      const size_t end = std::min(json.find_first_not_of("+-.eE0123456789", at), json.size());
      const std::string_view number = json.substr(at, end - at);
      int64_t value = 0;
      const auto error = std::from_chars(number.begin(), number.end(), value).ec;
      const bool whole = number.find_first_of(".eE") == std::string_view::npos;
      if (whole && error == std::errc::result_out_of_range) return true;
      at = end - 1;
    }
  }
  return false;
}

std::optional<Value> ToValue(const nlohmann::json& json, int depth) {
  if (depth > cypher::kMaxValueDepth) return std::nullopt;
  switch (json.type()) {
    case nlohmann::json::value_t::null:
      return Value();
    case nlohmann::json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return Value::Int(static_cast<int64_t>(number));
    }
    case nlohmann::json::value_t::number_float:
      return Value::Float(json.get<double>());
    case nlohmann::json::value_t::string:
      return Value::String(json.get_ref<const std::string&>());
    case nlohmann::json::value_t::array: {
      cypher::ValueList list;
      for (const auto& item : json) {
        auto value = ToValue(item, depth + 1);
        if (!value) return std::nullopt;
        list.push_back(*std::move(value));
      }
      return Value::List(std::move(list));
    }
    case nlohmann::json::value_t::object: {
      cypher::ValueMap map;
      for (const auto& [key, item] : json.items()) {
        auto value = ToValue(item, depth + 1);
        if (!value) return std::nullopt;
        map.emplace_back(key, *std::move(value));
      }
      return Value::Map(std::move(map));
    }
    default:
      return std::nullopt;
  }
}

// Takes from `left` what its JSON has at least; false: that is more. What is in the graph counts as
// often as the value refers to it.
bool TakeBytes(const Value& value, const cypher::GraphView& view, size_t* left) {
  size_t bytes = 1;
  if (value.is_string()) bytes = value.as_string().size();
  if (value.is_bytes()) bytes = value.as_bytes().size();  // and a third more, as base64
  if (value.is_node() || value.is_edge() || value.is_path()) bytes = JsonText(value, view).size();
  if (bytes > *left) return false;
  *left -= bytes;
  if (value.is_list()) {
    for (const Value& item : value.as_list()) {
      if (!TakeBytes(item, view, left)) return false;
    }
  } else if (value.is_map()) {
    for (const auto& [key, item] : value.as_map()) {
      if (!TakeBytes(item, view, left)) return false;
    }
  }
  return true;
}

// Rows as JSON, and the nodes and relationships in them to draw, up to the limits.
class PageRows : public cypher::RowSink {
 public:
  PageRows(const PageLimits& limits, size_t most_rows, bool writes)
      : limits_(limits), most_rows_(most_rows), writes_(writes) {}

  bool OnRows(const cypher::GraphView& view, const Value* rows, size_t stride, size_t count,
              std::span<const cypher::Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      // What writes runs to its end.
      if (truncated_) return writes_;
      if (rows_ >= most_rows_) {
        truncated_ = true;
        continue;
      }
      // What is too large is not even made.
      size_t left = limits_.answer_bytes - text_.size();
      for (const cypher::Slot column : columns) {
        truncated_ |= !TakeBytes(rows[i * stride + static_cast<size_t>(column)], view, &left);
      }
      if (truncated_) continue;
      std::string row = "[";
      for (const cypher::Slot column : columns) {
        const Value& value = rows[i * stride + static_cast<size_t>(column)];
        ordered_json json = ToJson(value, view);
        KeepIntegers(&json);
        row += (row.size() > 1 ? "," : "") + Dump(json);
        Collect(value, view);
      }
      row += "]";
      if (text_.size() + row.size() > limits_.answer_bytes) {
        truncated_ = true;
        continue;
      }
      text_ += (rows_ > 0 ? "," : "") + row;
      ++rows_;
    }
    return true;
  }
  bool Restart() override {
    rows_ = 0;
    truncated_ = false;
    for (std::string* text : {&text_, &nodes_, &edges_}) text->clear();
    seen_nodes_.clear();
    seen_edges_.clear();
    return true;
  }

  bool truncated() const { return truncated_; }
  const std::string& rows() const { return text_; }
  const std::string& nodes() const { return nodes_; }
  const std::string& edges() const { return edges_; }

 private:
  void Collect(const Value& value, const cypher::GraphView& view) {
    if (value.is_node()) {
      Add(value, value.as_node(), limits_.drawn, view, &seen_nodes_, &nodes_);
    } else if (value.is_edge()) {
      const cypher::EdgeRef& edge = value.as_edge();
      Collect(Value::Node(edge.source), view);
      Collect(Value::Node(edge.target), view);
      Add(value, edge.id, 2 * limits_.drawn, view, &seen_edges_, &edges_);
    } else if (value.is_path()) {
      for (const cypher::NodeId node : value.as_path().nodes) Collect(Value::Node(node), view);
      for (const cypher::EdgeRef& edge : value.as_path().edges) Collect(Value::Edge(edge), view);
    } else if (value.is_list()) {
      for (const Value& item : value.as_list()) Collect(item, view);
    } else if (value.is_map()) {
      for (const auto& [key, item] : value.as_map()) Collect(item, view);
    }
  }
  void Add(const Value& value, uint64_t id, size_t most, const cypher::GraphView& view,
           std::set<uint64_t>* seen, std::string* text) {
    if (seen->size() >= most || !seen->insert(id).second) return;
    ordered_json json = ToJson(value, view);
    KeepIntegers(&json);
    const std::string one = Dump(json);
    // Beside the rows: no more than they may have.
    if (text->size() + one.size() > limits_.answer_bytes) return;
    *text += (text->empty() ? "" : ",") + one;
  }

  const PageLimits& limits_;
  const size_t most_rows_;
  const bool writes_;
  size_t rows_ = 0;
  bool truncated_ = false;
  std::string text_, nodes_, edges_;
  std::set<uint64_t> seen_nodes_, seen_edges_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Open(
    cypher::GraphService* service, const net::AccessOptions& access,
    std::shared_ptr<net::LogonThrottle> throttle, uint16_t port, const PageLimits& limits) {
  if (!access.tls_cert.empty()) {
    return absl::InvalidArgumentError(
        "--http has no TLS, and goes over loopback alone; leave it, or --tls-cert, out");
  }
  std::unique_ptr<PageServer> server(new PageServer(service, std::move(throttle), limits));
  PULSE_ASSIGN_OR_RETURN(server->access_, net::OpenAccess(access));
  const std::string where = absl::StrCat("127.0.0.1:", port);
  if (port != 0) {
    PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseAddress(where));
    // The library says only that it could not.
    if (const absl::Status st = net::CheckFree(address); !st.ok()) return OptionError("--http", st);
  }
  mg_callbacks callbacks{};
  callbacks.begin_request = &PageServer::OnRequest;
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // not to files
  // A client that says nothing, or has gone, holds one of the threads for two seconds.
  const char* options[] = {"listening_ports",
                           where.c_str(),
                           "num_threads",
                           "8",
                           "request_timeout_ms",
                           "2000",
                           "enable_keep_alive",
                           "no",
                           "max_request_size",
                           "16384",
                           nullptr};
  mg_init_library(0);
  server->context_ = mg_start(&callbacks, server.get(), options);
  if (server->context_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("--http: listening on ", where, " failed"));
  }
  mg_server_port bound{};
  if (mg_get_server_ports(server->context_, 1, &bound) != 1) {
    return absl::UnavailableError("--http: nobody says which port it is");
  }
  server->port_ = static_cast<uint16_t>(bound.port);
  return server;
}

PageServer::~PageServer() {
  stopping_ = true;
  if (context_ != nullptr) mg_stop(context_);
}

int PageServer::OnRequest(mg_connection* connection) {
  // Else the library waits for the rest of a request that was refused, however long that takes.
  mg_disable_connection_keep_alive(connection);
  static_cast<PageServer*>(mg_get_user_data(mg_get_context(connection)))->Serve(connection);
  // A client that still writes when the connection is closed does not see the answer.
  char dropped[kReadBytes];
  const int64_t end = NowNanos() + kDropNanos;
  while (NowNanos() < end && mg_read(connection, dropped, sizeof(dropped)) > 0) {
  }
  return 1;  // it was answered
}

const net::User* PageServer::CheckRequest(mg_connection* connection) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const auto hosts = HeadersOf(request, "Host");
  bool known = false;
  for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
    known |= hosts.size() == 1 && (hosts[0] == cypher::Concat(host, ":", port_) ||
                                   (port_ == kHttpPort && hosts[0] == host));
  }
  if (!known) {
    Refuse(connection, 403, cypher::Concat("ask for http://127.0.0.1:", port_, "/"));
    return nullptr;
  }
  const std::string own = cypher::Concat("http://", hosts[0]);
  for (const std::string_view origin : HeadersOf(request, "Origin")) {
    if (origin == own) continue;
    Refuse(connection, 403, "a request of another page");
    return nullptr;
  }
  for (const std::string_view site : HeadersOf(request, "Sec-Fetch-Site")) {
    if (site == "same-origin" || site == "none") continue;
    Refuse(connection, 403, "a request of another page");
    return nullptr;
  }
  const auto said = HeadersOf(request, "Authorization");
  const net::User* user = access_.users.Anonymous();
  std::string pair;
  if (!said.empty()) {
    user = nullptr;
    constexpr std::string_view kBasic = "basic ";
    if (said.size() == 1 && said[0].size() > kBasic.size() &&
        absl::EqualsIgnoreCase(cypher::Absl(said[0].substr(0, kBasic.size())),
                               cypher::Absl(kBasic)) &&
        absl::Base64Unescape(cypher::Absl(said[0].substr(kBasic.size())), &pair)) {
      const size_t colon = pair.find(':');
      std::string name = pair.substr(0, colon);
      // As of Bolt.
      if (name == "neo4j" && access_.users.Find(name) == nullptr) name = "default";
      if (colon != std::string::npos) {
        const auto checked =
            throttle_->Check(access_.users, request.remote_addr, name, pair.substr(colon + 1));
        if (!checked.ok()) {
          Refuse(connection, 429, std::string(checked.status().message()));
          return nullptr;
        }
        user = *checked;
      }
    }
  }
  if (user == nullptr) {
    Refuse(connection, 401, "a name and a password are needed to use this server",
           "WWW-Authenticate: Basic realm=\"PulseDB graph\", charset=\"UTF-8\"\r\n");
  }
  return user;
}

void PageServer::Serve(mg_connection* connection) {
  const net::User* const user = CheckRequest(connection);
  if (user == nullptr) return;
  const mg_request_info& request = *mg_get_request_info(connection);
  const std::string_view method = request.request_method;
  const std::string_view path = request.local_uri_raw == nullptr ? "" : request.local_uri_raw;
  if (path == "/") {
    if (method != "GET" && method != "HEAD") {
      return Refuse(connection, 405, "only GET", "Allow: GET, HEAD\r\n");
    }
    return SendPage(connection, method == "GET");
  }
  if (path != "/query") return Refuse(connection, 404, "there are / and /query");
  if (method != "POST") return Refuse(connection, 405, "only POST", "Allow: POST\r\n");
  Query(connection, *user);
}

void PageServer::SendPage(mg_connection* connection, bool body) {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return Refuse(connection, 503, "no random numbers");
  }
  std::string nonce;
  for (const unsigned char byte : random) {
    nonce += "0123456789abcdef"[byte >> 4];
    nonce += "0123456789abcdef"[byte & 15];
  }
  std::string page = kGraphPage;
  constexpr std::string_view kPlace = "@NONCE@";
  for (size_t at; (at = page.find(kPlace)) != std::string::npos;) {
    page.replace(at, kPlace.size(), nonce);
  }
  Send(connection, 200, "text/html; charset=utf-8",
       cypher::Concat("Content-Security-Policy: default-src 'none'; script-src 'nonce-", nonce,
                      "'; style-src 'nonce-", nonce,
                      "'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'\r\nX-Frame-Options: DENY\r\n"),
       page, body);
}

void PageServer::Query(mg_connection* connection, const net::User& user) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const auto types = HeadersOf(request, "Content-Type");
  if (types.size() != 1 ||
      (types[0] != "application/json" &&
       !absl::EqualsIgnoreCase(cypher::Absl(types[0]), "application/json; charset=utf-8"))) {
    return Refuse(connection, 415, "the request is of type application/json");
  }
  if (request.content_length < 0 || !HeadersOf(request, "Transfer-Encoding").empty()) {
    return Refuse(connection, 411, "the request says its Content-Length");
  }
  const auto size = static_cast<uint64_t>(request.content_length);
  if (size > limits_.request_bytes) {
    return Refuse(connection, 413,
                  cypher::Concat("a request has at most ", limits_.request_bytes, " bytes"));
  }
  std::string body(size, '\0');
  size_t done = 0;
  const int64_t end = TransferEnd(body.size());
  while (done < body.size()) {
    if (NowNanos() >= end) return Refuse(connection, 408, "the request comes too slowly");
    const int n = mg_read(connection, body.data() + done, std::min(body.size() - done, kReadBytes));
    if (n <= 0) return;  // it has gone, or says nothing for too long
    done += static_cast<size_t>(n);
  }
  int code = 200;
  const std::string answer = Answer(body, user, &code);
  Send(connection, code, "application/json", "", answer);
}

std::string PageServer::Answer(const std::string& body, const net::User& user, int* code) {
  *code = 400;
  // Beside the values, the request itself and its parameters.
  if (DepthOf(body) > cypher::kMaxValueDepth + 2) {
    return ErrorJson("Http", "parameters: too deep");
  }
  if (HasWideInteger(body)) return ErrorJson("Http", "parameters: an integer beyond 64 bits");
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("query") || !json["query"].is_string()) {
    return ErrorJson("Http", "expected {\"query\": \"...\", \"parameters\": {...}, \"limit\": n}");
  }
  cypher::ValueMap parameters;
  size_t most_rows = 1000;
  for (const auto& [key, value] : json.items()) {
    if (key == "parameters" && value.is_object()) {
      const auto map = ToValue(value, 0);
      if (!map) return ErrorJson("Http", "parameters: too deep, or a number beyond 64 bits");
      parameters = map->as_map();
    } else if (key == "limit" && value.is_number_unsigned() && value.get<uint64_t>() > 0) {
      most_rows = std::min<uint64_t>(value.get<uint64_t>(), limits_.rows);
    } else if (key != "query") {
      return ErrorJson("Http", cypher::Concat("not understood: ", key.substr(0, 100)));
    }
  }
  const int64_t began = NowNanos();
  const auto failed = [](const absl::Status& status, cypher::Doing doing) {
    const cypher::Failure failure = cypher::FailureOf(status, doing);
    return ErrorJson(failure.code, failure.message);
  };
  cypher::Caller caller;
  caller.user = user.name;
  caller.client = "http";
  caller.may_read = user.may_read;
  caller.may_write = user.may_write;
  caller.may_admin = user.may_admin;
  const std::function<bool()> interrupted = [this] { return stopping_.load(); };
  cypher::RunOptions options;
  options.parameters = &parameters;
  options.timeout_nanos = limits_.query_nanos;
  options.interrupted = &interrupted;
  options.began_nanos = began;
  const auto entry = service_->Enter(caller, options);
  options.entry = entry.get();
  const auto statement =
      service_->Prepare(json["query"].get_ref<const std::string&>(), caller, options);
  if (!statement.ok()) return failed(statement.status(), cypher::Doing::kQuery);
  const cypher::Statement& prepared = **statement;
  PageRows rows(limits_, most_rows, prepared.writes());
  cypher::Outcome outcome;
  if (const auto st = service_->Run(prepared, caller, options, &rows, &outcome); !st.ok()) {
    return failed(st, prepared.schema ? cypher::Doing::kSchema : cypher::Doing::kQuery);
  }
  *code = 200;
  const auto text = [](const std::string& one) { return Dump(ordered_json(one)); };
  return absl::StrCat("{\"columns\":", Dump(ordered_json(prepared.columns())), ",\"rows\":[",
                      rows.rows(), "],\"truncated\":", rows.truncated() ? "true" : "false",
                      ",\"graph\":{\"nodes\":[", rows.nodes(), "],\"relationships\":[",
                      rows.edges(), "]},\"changes\":", text(ChangesText(outcome)),
                      ",\"notice\":", text(outcome.notice), ",\"plan\":", text(outcome.plan),
                      ",\"milliseconds\":", (NowNanos() - began) / 1'000'000, "}");
}

}  // namespace pulse
