#include "bench/macro/graph/gtpc_queries.h"

#include <utility>

#include "absl/strings/str_replace.h"

namespace pulse::bench {
namespace {

struct Query {
  std::string_view name;
  std::string_view text;
};

// TIME(text), YEAR(expression) and FIRST(expression, n), the first n letters, stand for what the
// dialects name differently.
constexpr Query kOlap[] = {
    {"Q1", R"(MATCH (l:OrderLine)
WHERE l.delivery_d > TIME(2007-01-02T00:00:00)
RETURN l.number AS number, sum(l.quantity) AS quantity, sum(l.amount) AS amount,
       avg(l.quantity) AS mean_quantity, avg(l.amount) AS mean_amount, count(*) AS lines
ORDER BY number)"},
    {"Q2", R"(MATCH (i:Item)-[:hasStock]->(s:Stock)-[:hasSupplier]->(u:Supplier)
      -[:isLocatedIn]->(n:Nation)-[:isPartOf]->(r:Region)
WHERE r.name =~ 'EUROP.*' AND i.data =~ '.*b'
WITH i, min(s.quantity) AS least
MATCH (i)-[:hasStock]->(s:Stock)-[:hasSupplier]->(u:Supplier)
      -[:isLocatedIn]->(n:Nation)-[:isPartOf]->(r:Region)
WHERE r.name =~ 'EUROP.*' AND s.quantity = least
RETURN i.id AS item, u.name AS supplier, n.name AS nation, i.name AS name, u.address AS address,
       u.phone AS phone, u.comment AS comment
ORDER BY nation, supplier, item)"},
    {"Q3", R"(MATCH (c:Customer)-[:hasPlaced]->(o:Order)-[:contains]->(l:OrderLine)
WHERE c.state =~ 'A.*' AND o.entry_d > TIME(2007-01-02T00:00:00)
RETURN o.id AS order_id, o.entry_d AS entered, sum(l.amount) AS revenue
ORDER BY revenue DESC, entered)"},
    {"Q4", R"(MATCH (o:Order)-[:contains]->(l:OrderLine)
WHERE o.entry_d >= TIME(2007-01-02T00:00:00) AND o.entry_d < TIME(2012-01-02T00:00:00)
  AND l.delivery_d >= o.entry_d
RETURN o.ol_cnt AS size, count(*) AS lines
ORDER BY size)"},
    {"Q5", R"(MATCH (l:OrderLine)<-[:contains]-(o:Order)<-[:hasPlaced]-(c:Customer)
      -[:isLocatedIn]->(n:Nation)-[:isPartOf]->(r:Region)
WHERE r.name = 'EUROPE' AND o.entry_d >= TIME(2007-01-02T00:00:00)
RETURN n.name AS nation, sum(l.amount) AS revenue
ORDER BY revenue DESC)"},
    {"Q6", R"(MATCH (l:OrderLine)
WHERE l.delivery_d >= TIME(1970-01-01T00:00:00) AND l.delivery_d < TIME(2020-01-01T00:00:00)
  AND l.quantity >= 1 AND l.quantity <= 100000
RETURN sum(l.amount) AS revenue)"},
    {"Q7", R"(MATCH (m:Nation)<-[:isLocatedIn]-(c:Customer)-[:hasPlaced]->(o:Order)
      -[:contains]->(l:OrderLine)-[:hasStock]->(:Stock)-[:hasSupplier]->(u:Supplier)
      -[:isLocatedIn]->(n:Nation)
WHERE l.delivery_d >= TIME(2007-01-02T00:00:00) AND l.delivery_d < TIME(2012-01-02T00:00:00)
  AND ((m.name = 'CAMBODIA' AND n.name = 'GERMANY') OR
       (m.name = 'GERMANY' AND n.name = 'CAMBODIA'))
RETURN n.name AS supplied_by, FIRST(c.state, 1) AS state, YEAR(o.entry_d) AS entered_in,
       sum(l.amount) AS revenue
ORDER BY supplied_by, state, entered_in)"},
    {"Q8",
     R"(MATCH (i:Item)-[:hasStock]->(s:Stock)<-[:hasStock]-(l:OrderLine)<-[:contains]-(o:Order)
      <-[:hasPlaced]-(c:Customer)-[:isLocatedIn]->(m:Nation)-[:isPartOf]->(r:Region)
MATCH (s)-[:hasSupplier]->(u:Supplier)-[:isLocatedIn]->(n:Nation)
WHERE i.id < 1000 AND i.data =~ '.*b' AND r.name = 'EUROPE'
  AND o.entry_d >= TIME(2007-01-02T00:00:00) AND o.entry_d < TIME(2012-01-02T00:00:00)
RETURN YEAR(o.entry_d) AS entered_in,
       sum(CASE WHEN n.name = 'GREECE' THEN l.amount ELSE 0.0 END) / sum(l.amount) AS share
ORDER BY entered_in)"},
    {"Q9",
     R"(MATCH (i:Item)-[:hasStock]->(s:Stock)<-[:hasStock]-(l:OrderLine)<-[:contains]-(o:Order)
MATCH (s)-[:hasSupplier]->(u:Supplier)-[:isLocatedIn]->(n:Nation)
WHERE i.data =~ '.*BB'
RETURN n.name AS nation, YEAR(o.entry_d) AS entered_in, sum(l.amount) AS profit
ORDER BY nation, entered_in DESC)"},
    {"Q10", R"(MATCH (n:Nation)<-[:isLocatedIn]-(c:Customer)-[:hasPlaced]->(o:Order)
      -[:contains]->(l:OrderLine)
WHERE o.entry_d >= TIME(2007-01-02T00:00:00) AND o.entry_d <= l.delivery_d
RETURN c.id AS customer, c.last AS name, c.city AS city, c.phone AS phone, n.name AS nation,
       sum(l.amount) AS revenue
ORDER BY revenue DESC, customer)"},
    {"Q11", R"(MATCH (t:Stock)-[:hasSupplier]->(:Supplier)-[:isLocatedIn]->(m:Nation)
WHERE m.name = 'GERMANY'
WITH sum(t.order_cnt) * 0.00005 AS least
MATCH (i:Item)-[:hasStock]->(s:Stock)-[:hasSupplier]->(:Supplier)-[:isLocatedIn]->(n:Nation)
WHERE n.name = 'GERMANY'
WITH least, i.id AS item, sum(s.order_cnt) AS orders
WHERE orders > least
RETURN item, orders
ORDER BY orders DESC, item)"},
    {"Q12", R"(MATCH (o:Order)-[:contains]->(l:OrderLine)
WHERE o.entry_d <= l.delivery_d AND l.delivery_d < TIME(2020-01-01T00:00:00)
RETURN o.ol_cnt AS size,
       sum(CASE WHEN o.carrier_id = 1 OR o.carrier_id = 2 THEN 1 ELSE 0 END) AS high,
       sum(CASE WHEN o.carrier_id <> 1 AND o.carrier_id <> 2 THEN 1 ELSE 0 END) AS low
ORDER BY size)"},
    {"Q13", R"(MATCH (c:Customer)-[:hasPlaced]->(o:Order)
WHERE o.carrier_id > 8
WITH c.id AS customer, count(*) AS orders
RETURN orders, count(*) AS customers
ORDER BY customers DESC, orders DESC)"},
    {"Q14", R"(MATCH (i:Item)-[:hasStock]->(:Stock)<-[:hasStock]-(l:OrderLine)
RETURN 100.0 * sum(CASE WHEN i.data =~ 'PR.*' THEN l.amount ELSE 0.0 END) /
       (1 + sum(l.amount)) AS promoted)"},
    {"Q15", R"(MATCH (l:OrderLine)-[:hasStock]->(:Stock)-[:hasSupplier]->(u:Supplier)
WHERE l.delivery_d >= TIME(2011-01-02T00:00:00)
WITH u, sum(l.amount) AS revenue
WITH max(revenue) AS most
MATCH (l:OrderLine)-[:hasStock]->(:Stock)-[:hasSupplier]->(u:Supplier)
WHERE l.delivery_d >= TIME(2011-01-02T00:00:00)
WITH most, u, sum(l.amount) AS revenue
WHERE revenue > most - 0.005
RETURN u.id AS supplier, u.name AS name, u.address AS address, u.phone AS phone, revenue
ORDER BY supplier)"},
    {"Q16", R"(MATCH (i:Item)-[:hasStock]->(:Stock)-[:hasSupplier]->(u:Supplier)
WHERE NOT (i.data =~ 'zz.*') AND NOT (u.comment =~ '.*bad.*')
RETURN i.name AS item, i.price AS price, FIRST(i.data, 3) AS brand,
       count(DISTINCT u.id) AS suppliers
ORDER BY suppliers DESC, item)"},
    {"Q17", R"(MATCH (i:Item)-[:hasStock]->(:Stock)<-[:hasStock]-(l:OrderLine)
WHERE i.data =~ '.*b'
WITH i, avg(l.quantity) AS mean
MATCH (i)-[:hasStock]->(:Stock)<-[:hasStock]-(l:OrderLine)
WHERE l.quantity < mean
RETURN sum(l.amount) / 2.0 AS yearly)"},
    {"Q18", R"(MATCH (c:Customer)-[:hasPlaced]->(o:Order)-[:contains]->(l:OrderLine)
      -[:hasStock]->(:Stock)<-[:hasStock]-(w:Warehouse)
WITH c, o, w, LINES AS lines, sum(l.amount) AS amount
WHERE amount > 100
RETURN c.last AS name, c.id AS customer, o.id AS order_id, o.entry_d AS entered, lines, amount
ORDER BY amount DESC, entered)"},
    {"Q19", R"(MATCH (i:Item)-[:hasStock]->(s:Stock)<-[:hasStock]-(l:OrderLine)
MATCH (s)<-[:hasStock]-(w:Warehouse)
WHERE l.quantity >= 1 AND l.quantity <= 10 AND i.price >= 1 AND i.price <= 400000
  AND ((i.data =~ '.*a' AND w.id IN [1, 2, 3]) OR (i.data =~ '.*b' AND w.id IN [1, 2, 4]) OR
       (i.data =~ '.*c' AND w.id IN [1, 5, 3]))
RETURN sum(l.amount) AS revenue)"},
    {"Q20", R"(MATCH (i:Item)-[:hasStock]->(s:Stock)<-[:hasStock]-(l:OrderLine)
WHERE i.data =~ 'co.*' AND l.delivery_d > TIME(2010-05-23T12:00:00)
WITH s, s.quantity AS quantity, sum(l.quantity) AS ordered
WHERE 2 * quantity > ordered
MATCH (s)-[:hasSupplier]->(u:Supplier)-[:isLocatedIn]->(n:Nation)
WHERE n.name = 'TAIWAN'
RETURN DISTINCT u.name AS supplier, u.address AS address
ORDER BY supplier)"},
    {"Q21", R"(MATCH (o:Order)-[:contains]->(l:OrderLine)-[:hasStock]->(:Stock)
      -[:hasSupplier]->(u:Supplier)-[:isLocatedIn]->(n:Nation)
WHERE n.name = 'GERMANY' AND l.delivery_d > o.entry_d
  AND NOT EXISTS { MATCH (o)-[:contains]->(m:OrderLine) WHERE m.delivery_d > l.delivery_d }
RETURN u.name AS supplier, count(*) AS waiting
ORDER BY waiting DESC, supplier)"},
    {"Q22", R"(MATCH (d:Customer)
WHERE FIRST(d.phone, 1) IN ['1', '2', '3', '4', '5', '6', '7'] AND d.balance > 0
WITH avg(d.balance) AS mean
MATCH (c:Customer)
WHERE FIRST(c.phone, 1) IN ['1', '2', '3', '4', '5', '6', '7'] AND c.balance > mean
  AND NOT EXISTS { MATCH (c)-[:hasPlaced]->(:Order) }
RETURN FIRST(c.state, 1) AS state, count(*) AS customers, sum(c.balance) AS balance
ORDER BY state)"}};

// Replaces NAME(argument) by `form`, in which $ is the argument.
void Expand(const std::string& name, const std::string& form, std::string* text) {
  const std::string begin = name + "(";
  for (size_t at = text->find(begin); at != std::string::npos; at = text->find(begin, at)) {
    const size_t first = at + begin.size(), end = text->find(')', first);
    const std::string put = absl::StrReplaceAll(form, {{"$", text->substr(first, end - first)}});
    text->replace(at, end + 1 - at, put);
    at += put.size();
  }
}

std::string InDialect(std::string_view query, CypherDialect dialect) {
  std::string text(query);
  Expand("FIRST", "left($)", &text);
  if (dialect == CypherDialect::kOurs) {
    Expand("TIME", "localdatetime('$')", &text);
    Expand("YEAR", "$.year", &text);
    return text;
  }
  Expand("TIME", "timestamp('$')", &text);
  Expand("YEAR", "date_part('year', $)", &text);
  // A word of their grammar.
  return absl::StrReplaceAll(text, {{":Order)", ":`Order`)"}});
}

}  // namespace

std::vector<GtpcQuery> GtpcOlap(CypherDialect dialect, bool repaired) {
  std::vector<GtpcQuery> all;
  for (const Query& query : kOlap) {
    std::string text = InDialect(query.text, dialect);
    if (query.name == "Q18") {
      text = absl::StrReplaceAll(text, {{"LINES AS", repaired ? "o.ol_cnt AS" : "l.cnt AS"}});
    }
    if (query.name == "Q11" && !repaired) {
      text = absl::StrReplaceAll(text, {{"n.name = 'GERMANY'", "n.name = 'Germany'"}});
    }
    all.push_back({std::string(query.name), std::move(text)});
  }
  return all;
}

const std::vector<GtpcTransaction>& GtpcOltp() {
  static const std::vector<GtpcTransaction> all = {
      {"1 new order",
       {"MATCH (w:Warehouse {id: $w}) RETURN w.tax",
        "MATCH (d:District {id: $d}) SET d.next_o_id = d.next_o_id + 1 RETURN d.tax, d.next_o_id",
        "MATCH (c:Customer {id: $c}) RETURN c.discount, c.last, c.credit",
        "MATCH (c:Customer {id: $c}) CREATE (c)-[:hasPlaced]->(:Order {id: $new_o, entry_d: "
        "localdatetime($now), carrier_id: 0, ol_cnt: size($lines), all_local: 1, new_order: 1})",
        "UNWIND $lines AS line MATCH (o:Order {id: $new_o}) MATCH (s:Stock {id: line.stock})"
        "<-[:hasStock]-(i:Item) SET s.quantity = s.quantity - line.quantity + "
        "CASE WHEN s.quantity - line.quantity >= 10 THEN 0 ELSE 91 END, "
        "s.ytd = s.ytd + line.quantity, s.order_cnt = s.order_cnt + 1 "
        "CREATE (o)-[:contains]->(:OrderLine {id: line.id, number: line.number, delivery_d: "
        "localdatetime('1970-01-01T00:00:00'), quantity: line.quantity, "
        "amount: line.quantity * i.price, dist_info: s.dist_01})-[:hasStock]->(s)"}},
      {"2 payment",
       {"MATCH (w:Warehouse {id: $w}) SET w.ytd = w.ytd + $amount "
        "RETURN w.name, w.street_1, w.street_2, w.city, w.state, w.zip",
        "MATCH (d:District {id: $d}) SET d.ytd = d.ytd + $amount "
        "RETURN d.name, d.street_1, d.street_2, d.city, d.state, d.zip",
        "MATCH (c:Customer {id: $c}) SET c.balance = c.balance - $amount, "
        "c.ytd_payment = c.ytd_payment + $amount, c.payment_cnt = c.payment_cnt + 1, "
        "c.data = CASE WHEN c.credit = 'BC' THEN left(toString($c) + ' ' + toString($amount) + "
        "' ' + c.data, 500) ELSE c.data END "
        "RETURN c.first, c.middle, c.last, c.city, c.phone, c.since, c.credit, c.balance"}},
      {"3 order status",
       {"MATCH (c:Customer {id: $c}) RETURN c.balance, c.first, c.middle, c.last",
        "MATCH (c:Customer {id: $c})-[:hasPlaced]->(o:Order) WITH o ORDER BY o.id DESC LIMIT 1 "
        "MATCH (o)-[:contains]->(l:OrderLine) "
        "RETURN o.id, o.entry_d, o.carrier_id, l.id, l.quantity, l.amount, l.delivery_d"}},
      {"4 delivery",
       {"MATCH (c:Customer)-[:hasPlaced]->(o:Order {id: $o}) SET o.new_order = 0, "
        "o.carrier_id = $carrier WITH c, o MATCH (o)-[:contains]->(l:OrderLine) "
        "SET l.delivery_d = localdatetime($now) WITH c, sum(l.amount) AS amount "
        "SET c.balance = c.balance + amount, c.delivery_cnt = c.delivery_cnt + 1"}},
      {"5 stock level",
       {"UNWIND range($first, $last) AS id MATCH (:Order {id: id})-[:contains]->(:OrderLine)"
        "-[:hasStock]->(s:Stock) WHERE s.quantity < $threshold "
        "MATCH (s)<-[:hasStock]-(i:Item) RETURN count(DISTINCT i)"}}};
  return all;
}

const std::vector<std::string_view>& GtpcKeys() {
  static const std::vector<std::string_view> all = {"Warehouse", "District", "Customer",
                                                    "Order",     "Stock",    "Item"};
  return all;
}

}  // namespace pulse::bench
