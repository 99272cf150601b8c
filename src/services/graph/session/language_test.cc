// What Neo4j's users write beside openCypher, and what of it comes out.
#include <gtest/gtest.h>

#include "base/testing.h"
#include "services/graph/session/test_service.h"

namespace pulse::cypher {
namespace {

using testing_util::Text;

class LanguageTest : public ServiceTest {};

TEST_F(LanguageTest, PropertyByName_IsSetAndRemoved) {
  const ValueMap key = {{"k", Value::String("age")}, {"other", Value::String("town")}};
  ASSERT_TRUE(Run("CREATE (:P {name: 'Ann'})-[:T]->(:P {name: 'Bob', age: 3})").ok());
  ASSERT_TRUE(Run("MATCH (p:P) SET p[$k] = size(p.name), p[$other] = 'Rome'", key).ok());
  EXPECT_EQ(outcome_.counters.properties_set, 4u);
  EXPECT_EQ(Rows("MATCH (p:P) RETURN p ORDER BY p.name"),
            (Strings{"(:P {age: 3, name: 'Ann', town: 'Rome'})",
                     "(:P {age: 3, name: 'Bob', town: 'Rome'})"}));
  ASSERT_TRUE(Run("MATCH (p:P {name: 'Ann'})-[t]->() SET t['a' + 'b'] = 1 REMOVE p[$k]", key).ok());
  EXPECT_EQ(Rows("MATCH (p)-[t]->() RETURN p.age, t.ab"), Strings{"null, 1"});
  ASSERT_TRUE(Run("OPTIONAL MATCH (p:None) SET p[$k] = 1", key).ok());
  for (const char* wrong :
       {"MATCH (p:P) SET p[1] = 2", "MATCH (p:P) SET p[null] = 2", "MATCH (p:P) REMOVE p[[]]"}) {
    EXPECT_NE(Text(Run(wrong)).find("the name of a property is a STRING"), std::string::npos)
        << wrong;
  }
  EXPECT_FALSE(Run("MATCH (p:P) SET p[$k] += 1", key).ok());
}

TEST_F(LanguageTest, DateTimeOfTheEpoch_HasItsZone) {
  EXPECT_EQ(Rows("RETURN toString(datetime({epochSeconds: 0})), "
                 "toString(datetime({epochMillis: 86400123, nanosecond: 4})), "
                 "toString(datetime({epochMillis: -1})), "
                 "toString(datetime({epochSeconds: 1711846800, timezone: 'Europe/Berlin'}))"),
            Strings{"'1970-01-01T00:00Z', '1970-01-02T00:00:00.123000004Z', "
                    "'1969-12-31T23:59:59.999Z', '2024-03-31T03:00+02:00[Europe/Berlin]'"});
  EXPECT_EQ(Rows("WITH datetime({epochMillis: 1234567890123}) AS d RETURN d.epochMillis, "
                 "d.epochSeconds, datetime({epochMillis: d.epochMillis}) = d"),
            Strings{"1234567890123, 1234567890, true"});
  for (const char* wrong :
       {"epochSeconds: 0, year: 2000", "epochSeconds: 0, epochMillis: 0", "epochSeconds: 'x'",
        "epochMillis: 1, nanosecond: 1000000", "epochSeconds: 9223372036854775807"}) {
    EXPECT_FALSE(Run(Concat("RETURN datetime({", wrong, "})")).ok()) << wrong;
  }
}

TEST_F(LanguageTest, FunctionsOfCypher5_GiveWhatNeo4jGives) {
  EXPECT_EQ(Rows("RETURN nullIf(1, 1.0), nullIf(1, 2), nullIf(null, 1), nullIf('a', null)"),
            Strings{"null, 1, null, 'a'"});
  EXPECT_EQ(
      Rows("RETURN toIntegerList(['1', 2.7, 'x', null, true]), toFloatList([1, '2.5']), "
           "toBooleanList(['true', 0, 'no']), toStringList([1, 2.5, date('2024-01-02'), [1]]), "
           "toIntegerList(null)"),
      Strings{"[1, 2, null, null, 1], [1.0, 2.5], [true, false, null], ['1', '2.5', "
              "'2024-01-02', null], null"});
  EXPECT_EQ(Rows("RETURN btrim('xxaxbxx', 'x'), ltrim('xyz', 'yx'), rtrim('a  ', ' '), "
                 "btrim(' a '), trim('\t a b \n'), ltrim('ééa', 'é'), rtrim('aéé', 'éa'), "
                 "btrim('aaa', 'a'), btrim('a', ''), btrim(null, 'x'), btrim('x', null)"),
            Strings{"'axb', 'z', 'a', 'a', 'a b', 'a', '', '', 'a', null, null"});
}

TEST_F(LanguageTest, Use_NamesTheOneDatabase) {
  EXPECT_EQ(Rows("USE neo4j RETURN 1"), Strings{"1"});
  EXPECT_EQ(Rows("use `neo4j` MATCH (n) RETURN count(n)"), Strings{"0"});
  const absl::Status other = Run("USE movies MATCH (n) RETURN n");
  EXPECT_NE(Text(other).find("there is one database here, neo4j"), std::string::npos) << other;
}

}  // namespace
}  // namespace pulse::cypher
