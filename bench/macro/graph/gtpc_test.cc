// GTPC's queries answer what the generator's rows come to; the two variants differ in what the
// benchmark says they do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "bench/macro/graph/gtpc_database.h"
#include "bench/macro/graph/gtpc_export.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "bench/macro/graph/test_gtpc_answers.h"

namespace pulse::bench {
namespace {

using cypher::Value;
using testing::HasSubstr;
using testing_util::TestSeed;

AnswerValue Plain(const Value& value) {
  if (value.is_int()) return value.as_int();
  if (value.is_float()) return value.as_float();
  if (value.is_string()) return value.as_string();
  if (value.type() == cypher::Type::kLocalDateTime) return TimeText(value.as_local_seconds());
  return std::string(value.is_null() ? "null" : "?");
}

// Sums in another order differ in their last digits. A share of nothing is no number.
bool Same(const AnswerValue& a, const AnswerValue& b) {
  if (a.index() != b.index()) return false;
  const double* x = std::get_if<double>(&a);
  if (x == nullptr) return a == b;
  if (std::isnan(*x)) return std::isnan(std::get<double>(b));
  return std::abs(*x - std::get<double>(b)) <= 1e-9 * std::max(1.0, std::abs(*x));
}

std::string Text(const std::vector<AnswerValue>& row) {
  std::string text;
  for (const AnswerValue& value : row) {
    std::visit([&](const auto& v) { absl::StrAppend(&text, v, " | "); }, value);
  }
  return text;
}

class GtpcTest : public testing::TestWithParam<bool> {
 protected:
  GtpcTest() : data_({.warehouses = 2, .repaired = GetParam(), .tiny = true, .seed = TestSeed()}) {
    std::filesystem::create_directories(csv_);
    std::filesystem::create_directories(path_);
    GtpcDatabase::MakeOptions options;
    options.store.sync = false;
    auto made = GtpcDatabase::Make(data_, csv_, path_, options, nullptr);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) database_ = *std::move(made);
  }
  ~GtpcTest() override {
    database_.reset();
    std::filesystem::remove_all(directory_);
  }
  QueryRun Must(const std::string& text, const cypher::ValueMap* parameters = nullptr) {
    auto run = database_->Run(text, 0, true, parameters);
    EXPECT_TRUE(run.ok()) << run.status() << "\n" << text;
    return run.ok() ? *std::move(run) : QueryRun();
  }
  int64_t Number(const std::string& text) {
    const QueryRun run = Must(text);
    return run.rows.empty() ? -1 : run.rows[0][0].as_int();
  }

  const std::string directory_ = testing::TempDir() + "/gtpc_test";
  const std::string csv_ = directory_ + "/csv", path_ = directory_ + "/db";
  GtpcData data_;
  std::unique_ptr<GtpcDatabase> database_;
};

TEST_P(GtpcTest, Olap_AllQueries_AnswerWhatTheRowsComeTo) {
  ASSERT_NE(database_, nullptr);
  const auto queries = GtpcOlap(CypherDialect::kOurs, GetParam());
  ASSERT_EQ(queries.size(), 22u);
  for (int q = 1; q <= 22; ++q) {
    SCOPED_TRACE(queries[static_cast<size_t>(q - 1)].name);
    const QueryRun run = Must(queries[static_cast<size_t>(q - 1)].text);
    Answer found, expected = GtpcAnswer(data_, q);
    for (const auto& row : run.rows) {
      auto& plain = found.emplace_back();
      for (const Value& value : row) plain.push_back(Plain(value));
    }
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      for (size_t c = 0; c < found[i].size(); ++c) {
        ASSERT_TRUE(Same(found[i][c], expected[i][c]))
            << "row " << i << ": " << Text(found[i]) << "\nexpected " << Text(expected[i]);
      }
    }
  }
}

TEST_P(GtpcTest, Load_AllTables_HasTheirRowsAndRelationships) {
  ASSERT_NE(database_, nullptr);
  EXPECT_EQ(Number("MATCH (l:OrderLine) RETURN count(*)"), data_.lines());
  EXPECT_EQ(Number("MATCH (:Order)-[r:contains]->(:OrderLine) RETURN count(r)"), data_.lines());
  EXPECT_EQ(Number("MATCH (:Item)-[r:hasStock]->(:Stock) RETURN count(r)"), data_.stocks());
  EXPECT_EQ(Number("MATCH (:Customer)-[r:hasPlaced]->(:Order) RETURN count(r)"), data_.orders());
  int64_t dangling = 0;
  for (int64_t stock = 1; stock <= data_.stocks(); ++stock) {
    if (data_.SupplierOfStock(stock) == 0) ++dangling;
  }
  EXPECT_EQ(dangling > 0, !GetParam());
  EXPECT_EQ(database_->loaded().report.dangling, static_cast<uint64_t>(dangling));
  EXPECT_EQ(Number("MATCH (:Stock)-[r:hasSupplier]->(:Supplier) RETURN count(r)"),
            data_.stocks() - dangling);
}

TEST_P(GtpcTest, Data_SameSeed_SameRows) {
  const GtpcData again(data_.options());
  auto other = data_.options();
  ++other.seed;
  const GtpcData different(other);
  EXPECT_EQ(again.lines(), data_.lines());
  EXPECT_EQ(again.CustomerRow(7).data, data_.CustomerRow(7).data);
  EXPECT_NE(different.CustomerRow(7).data, data_.CustomerRow(7).data);
  std::set<int64_t> customers;
  for (int64_t order = 1; order <= data_.orders(); ++order) {
    customers.insert(data_.OrderRow(order).customer);
  }
  EXPECT_EQ(customers.size(), static_cast<size_t>(data_.customers()));
}

// What each of the five changes, or finds.
TEST_P(GtpcTest, Oltp_EachTransaction_DoesWhatItIsNamedFor) {
  ASSERT_NE(database_, nullptr);
  ASSERT_TRUE(database_->CreateIndexes().ok());
  const int64_t order = data_.orders() + 1, customer = data_.OrderRow(1).customer;
  const auto line = [&](int64_t number) {
    return Value::Map({{"id", Value::Int(data_.lines() + number)},
                       {"number", Value::Int(number)},
                       {"quantity", Value::Int(3)},
                       {"stock", Value::Int(number)}});
  };
  const cypher::ValueMap parameters = {{"amount", Value::Float(12.5)},
                                       {"c", Value::Int(customer)},
                                       {"carrier", Value::Int(7)},
                                       {"d", Value::Int(1)},
                                       {"first", Value::Int(1)},
                                       {"last", Value::Int(order)},
                                       {"lines", Value::List({line(1), line(2)})},
                                       {"new_o", Value::Int(order)},
                                       {"now", Value::String("2013-01-01T00:00:00")},
                                       {"o", Value::Int(1)},
                                       {"threshold", Value::Int(1000)},
                                       {"w", Value::Int(1)}};
  const auto number = [&](const std::string& text) {
    const QueryRun run = Must(text, &parameters);
    return run.rows.empty() || run.rows[0][0].is_null() ? -1.0 : run.rows[0][0].as_number();
  };
  const std::string balance = "MATCH (c:Customer {id: $c}) RETURN c.balance";
  const double before = number(balance);
  const double stock = number("MATCH (s:Stock {id: 1}) RETURN s.order_cnt");
  std::map<std::string_view, QueryRun> last;
  for (const GtpcTransaction& transaction : GtpcOltp()) {
    for (const std::string_view statement : transaction.statements) {
      last[transaction.name] = Must(std::string(statement), &parameters);
    }
  }
  EXPECT_EQ(number("MATCH (:Order {id: $new_o})-[:contains]->(:OrderLine)-[:hasStock]->(:Stock) "
                   "RETURN count(*)"),
            2);
  EXPECT_EQ(number("MATCH (:Customer {id: $c})-[:hasPlaced]->(o:Order {id: $new_o}) "
                   "RETURN o.ol_cnt"),
            2);
  EXPECT_EQ(number("MATCH (s:Stock {id: 1}) RETURN s.order_cnt"), stock + 1);
  // Paid, then credited for the delivery of order 1, which is this customer's.
  int64_t amount = 0;
  for (int64_t id = data_.first_line(1); id < data_.first_line(2); ++id) {
    amount += data_.LineRow(1, id).amount;
  }
  EXPECT_NEAR(number(balance), before - 12.5 + static_cast<double>(amount) / 100, 1e-6);
  EXPECT_EQ(number("MATCH (o:Order {id: 1}) RETURN o.carrier_id"), 7);
  EXPECT_EQ(number("MATCH (:Order {id: 1})-[:contains]->(l:OrderLine) "
                   "WHERE l.delivery_d <> localdatetime($now) RETURN count(*)"),
            0);
  // The order's status shows the newest order's lines.
  EXPECT_EQ(last.at("3 order status").row_count, 2u);
  EXPECT_EQ(last.at("3 order status").rows[0][0].as_int(), order);
  std::set<int64_t> items;
  for (int64_t o = 1; o <= data_.orders(); ++o) {
    for (int64_t id = data_.first_line(o); id < data_.first_line(o + 1); ++id) {
      items.insert(data_.ItemOfStock(data_.LineRow(o, id).stock));
    }
  }
  items.insert({1, 2});
  EXPECT_EQ(last.at("5 stock level").rows[0][0].as_int(), static_cast<int64_t>(items.size()));
}

INSTANTIATE_TEST_SUITE_P(Variants, GtpcTest, testing::Bool(), [](const auto& variant) {
  return std::string(variant.param ? "Repaired" : "AsPublished");
});

TEST(GtpcQueriesTest, Dialects_Functions_AreNamedAsEachKnowsThem) {
  const auto ours = GtpcOlap(CypherDialect::kOurs, true);
  const auto theirs = GtpcOlap(CypherDialect::kLadybug, true);
  EXPECT_THAT(ours[6].text, HasSubstr("localdatetime('2007-01-02T00:00:00')"));
  EXPECT_THAT(ours[6].text, HasSubstr("o.entry_d.year AS entered_in"));
  EXPECT_THAT(ours[6].text, HasSubstr("left(c.state, 1)"));
  EXPECT_THAT(theirs[6].text, HasSubstr("timestamp('2007-01-02T00:00:00')"));
  EXPECT_THAT(theirs[6].text, HasSubstr("date_part('year', o.entry_d)"));
  EXPECT_THAT(theirs[6].text, HasSubstr("(o:`Order`)"));
}

// A comparison of nothing with nothing would show nothing. Q22 finds nothing, since TPC-C gives
// every customer an order.
TEST(GtpcDataTest, Answers_Repaired_HaveRowsForAllQueriesButOne) {
  const GtpcData data({.warehouses = 2, .repaired = true, .tiny = true, .seed = 1});
  for (int q = 1; q <= 22; ++q) EXPECT_EQ(GtpcAnswer(data, q).empty(), q == 22) << q;
}

TEST(GtpcExportTest, Files_OfATinyGraph_AreWhatTheirDescriptionSays) {
  const std::string directory = testing::TempDir() + "/gtpc_export_test";
  std::filesystem::remove_all(directory);
  const GtpcOptions options = {.warehouses = 1, .repaired = true, .tiny = true, .seed = TestSeed()};
  ASSERT_TRUE(WriteGtpcForOthers(options, directory).ok());
  ASSERT_TRUE(WriteGtpcQueries(true, directory).ok());
  std::ifstream in(directory + "/gtpc.json");
  const auto description = nlohmann::json::parse(in);
  EXPECT_EQ(description.at("queries").at("ladybug").size(), 22u);
  EXPECT_EQ(description.at("tables").size(), 21u);
  for (const nlohmann::json& table : description.at("tables")) {
    std::ifstream csv(directory + "/" + table.at("file").get<std::string>());
    std::string header, expected, row;
    std::getline(csv, header);
    for (const nlohmann::json& column : table.at("columns")) {
      expected += (expected.empty() ? "" : ",") + column.at("name").get<std::string>();
    }
    EXPECT_EQ(header, expected);
    while (std::getline(csv, row)) {
      ASSERT_EQ(std::count(row.begin(), row.end(), ','),
                std::count(header.begin(), header.end(), ','))
          << table.at("file") << ": " << row;
    }
  }
  for (const char* file : {"pulse/Q1.cypher", "ladybug/Q22.cypher", "pulse/oltp.cypher"}) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/" + file)) << file;
  }
  std::filesystem::remove_all(directory);
}

TEST(GtpcDataTest, Texts_MoneyAndTimes_AreReadBack) {
  EXPECT_EQ(MoneyText(-1005), "-10.05");
  EXPECT_EQ(MoneyText(7), "0.07");
  EXPECT_EQ(TimeText(SecondsOf(2012, 2, 29) + 3661), "2012-02-29T01:01:01");
}

}  // namespace
}  // namespace pulse::bench
