// GTPC's queries, in our words after its description: OLAP 1 to 22 for our engine and for Ladybug
// and Kuzu, whose Cypher names three functions differently; OLTP 1 to 5 as statements of a
// transaction. Constant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pulse::bench {

enum class CypherDialect { kOurs, kLadybug };

struct GtpcQuery {
  std::string name;  // "Q1"
  std::string text;
};

// All 22. As published, Q11 asks for a nation by two spellings, one of which no nation has, and Q18
// for a property that no line has.
std::vector<GtpcQuery> GtpcOlap(CypherDialect dialect, bool repaired);

struct GtpcTransaction {
  std::string_view name;  // "new order"
  std::vector<std::string_view> statements;
};

// Parameters: $w, $d, $c, $o, $new_o, $first, $last, $carrier, $threshold (integers), $amount
// (float), $now (text), and $lines, maps of id, number, stock and quantity.
const std::vector<GtpcTransaction>& GtpcOltp();

// Labels whose nodes transactions find by `id`; each gets an index.
const std::vector<std::string_view>& GtpcKeys();

}  // namespace pulse::bench
