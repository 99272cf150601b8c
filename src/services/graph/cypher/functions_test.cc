// What functions and aggregates give, and refuse, by rows and by columns.
#include "services/graph/cypher/test_random_graph.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

class FunctionsTest : public RandomGraphTest {
 protected:
  std::string Of(const std::string& expression) {
    const std::vector<std::string> rows = Run("RETURN " + expression);
    return rows.size() == 1 ? rows[0] : std::to_string(rows.size()) + " rows";
  }
  // Empty: there is none.
  std::string ErrorOf(const std::string& expression) {
    const auto plan = MakePlan("RETURN " + expression, graph_, nullptr);
    if (!plan.ok()) return "compile time";
    return InfoOf(RowsOf(**plan).status()).detail;
  }
  void Expect(const std::vector<std::pair<std::string, std::string>>& cases) {
    for (const auto& [expression, expected] : cases) {
      EXPECT_EQ(Of(expression), expected) << expression;
    }
  }
  void ExpectError(const std::string& detail, const std::vector<std::string>& expressions) {
    for (const std::string& expression : expressions) {
      EXPECT_EQ(ErrorOf(expression), detail) << expression;
    }
  }
};

TEST_F(FunctionsTest, Weeks_ThatTheYearDoesNotHave_AreRefused) {
  Expect({{"toString(date('2020-W53-5'))", "'2021-01-01'"},
          {"toString(date('2015W53'))", "'2015-12-28'"},
          {"toString(date({year: 2015, week: 53}))", "'2015-12-28'"},
          // The week is the base's, as far as the year has it.
          {"toString(date({date: date('2020-12-31'), year: 2021, dayOfWeek: 1}))", "'2021-12-27'"},
          {"toString(date({date: date('2020-12-31'), dayOfWeek: 1}))", "'2020-12-28'"}});
  ExpectError("InvalidArgumentValue",
              {"date('2018-W53')", "date('2018W531')", "datetime('2018-W53-1T10:00')",
               "date({year: 2018, week: 53})", "localdatetime({year: 2018, week: 53, hour: 1})",
               "date({year: 2018, week: 0})", "date('2018-W00')"});
}

TEST_F(FunctionsTest, DaysOfQuarters_ThatAreNone_AreRefused) {
  Expect({{"toString(date({year: 2016, quarter: 1, dayOfQuarter: 91}))", "'2016-03-31'"},
          {"toString(date({year: 2017, quarter: 1, dayOfQuarter: 90}))", "'2017-03-31'"},
          {"toString(date({year: 2017, quarter: 2, dayOfQuarter: 91}))", "'2017-06-30'"},
          {"toString(date({year: 2017, quarter: 4, dayOfQuarter: 92}))", "'2017-12-31'"}});
  ExpectError("InvalidArgumentValue", {"date({year: 2017, quarter: 1, dayOfQuarter: 92})",
                                       "date({year: 2017, quarter: 1, dayOfQuarter: 91})",
                                       "date({year: 2017, quarter: 2, dayOfQuarter: 92})",
                                       "date({year: 2017, quarter: 3, dayOfQuarter: 93})"});
}

TEST_F(FunctionsTest, TextsOfQuarters_AreDates) {
  Expect({{"toString(date('2015-Q2-60'))", "'2015-05-30'"},
          {"toString(date('2015Q260'))", "'2015-05-30'"},
          {"toString(date('2015-Q2'))", "'2015-04-01'"},
          {"toString(date('2015Q4'))", "'2015-10-01'"},
          {"toString(date('2015-Q3-7'))", "'2015-07-07'"},
          {"toString(date('2016-Q1-91'))", "'2016-03-31'"},
          {"toString(localdatetime('2015-Q2-60T21:40:32'))", "'2015-05-30T21:40:32'"},
          {"toString(localdatetime('2015Q260T2140'))", "'2015-05-30T21:40:00'"},
          {"toString(datetime('2015Q2T10Z'))", "'2015-04-01T10:00:00Z'"}});
  ExpectError("InvalidArgumentValue",
              {"date('2015-Q5')", "date('2015-Q0')", "date('2015-Q2-92')", "date('2015-Q2-00')",
               "date('2015-Q2-')", "date('2015Q2-60')", "date('2015Q25')", "date('2015-Q260')",
               "date('2015-Q2-600')", "date('2017-Q1-91')", "date('2015-Q')"});
}

TEST_F(FunctionsTest, DatesCutToATime_AreRefused) {
  Expect({{"toString(date.truncate('day', datetime('2020-01-02T03:04Z')))", "'2020-01-02'"},
          {"toString(datetime.truncate('hour', date('2020-01-02')))", "'2020-01-02T00:00:00Z'"}});
  for (const char* unit : {"hour", "minute", "second", "millisecond", "microsecond"}) {
    EXPECT_EQ(ErrorOf(Concat("date.truncate('", unit, "', datetime('2020-01-02T03:04Z'))")),
              "InvalidArgumentValue")
        << unit;
  }
}

TEST_F(FunctionsTest, TextsWithSeparators_OneDigitParts_AreTaken) {
  Expect({{"toString(date('2015-7-1'))", "'2015-07-01'"},
          {"toString(date('2015-7'))", "'2015-07-01'"},
          {"toString(date('2015-11-3'))", "'2015-11-03'"},
          {"toString(date('2015-W3-1'))", "'2015-01-12'"},
          {"toString(date('2015-W3'))", "'2015-01-12'"},
          {"toString(localtime('9:30'))", "'09:30:00'"},
          {"toString(localtime('9:3:5.25'))", "'09:03:05.25'"},
          {"toString(localtime('T09:30'))", "'09:30:00'"},
          {"toString(localtime('T093015'))", "'09:30:15'"},
          {"toString(time('t9:30z'))", "'09:30:00Z'"},
          {"toString(localdatetime('2020-1-5T9:05'))", "'2020-01-05T09:05:00'"},
          {"toString(localdatetime('2020-01-05t0905'))", "'2020-01-05T09:05:00'"},
          {"toString(datetime('2020-1-5T9:05'))", "'2020-01-05T09:05:00Z'"},
          {"toString(datetime('2020-01-05t09:05:07+01:00'))", "'2020-01-05T09:05:07+01:00'"}});
  ExpectError("InvalidArgumentValue",
              {"date('20157')", "date('2015W3')", "date('2015-')", "date('2015-7-')",
               "date('2015-123-1')", "date('2015-7-100')", "date('2015-0-1')", "date('2015-W-1')",
               "localtime('9')", "localtime('930')", "localtime('9:')", "localtime('12:100')",
               "localtime('TT9:30')", "localtime('T')", "time('9Z')", "date('T2015-07-01')",
               "localdatetime('2020-01-05T')", "datetime('2020-1-5 9:05')"});
}

TEST_F(FunctionsTest, ToString_OfTimes_AlwaysWritesSeconds) {
  Expect({{"toString(datetime('2024-05-01T10:00Z'))", "'2024-05-01T10:00:00Z'"},
          {"toString(localdatetime('2024-05-01T10:00'))", "'2024-05-01T10:00:00'"},
          {"toString(localtime('12:00'))", "'12:00:00'"},
          {"toString(time('12:00+02:00'))", "'12:00:00+02:00'"},
          {"toStringOrNull(localtime('12:00'))", "'12:00:00'"},
          {"toStringList([localtime('12:00'), date('2024-05-01')])", "['12:00:00', '2024-05-01']"},
          {"toString(date('2024-05-01'))", "'2024-05-01'"},
          {"toString(duration('PT1H'))", "'PT1H'"},
          // The value itself is written as short as it was.
          {"localtime('12:00')", "'12:00'"}});
}

TEST_F(FunctionsTest, TextsAndOtherScalars_ByPlus_AreJoined) {
  Expect({{"'is ' + true", "'is true'"},
          {"false + '!'", "'false!'"},
          {"'on ' + date('2024-05-01')", "'on 2024-05-01'"},
          {"localtime('12:00') + ' h'", "'12:00:00 h'"},
          {"'at ' + datetime('2024-05-01T10:00Z')", "'at 2024-05-01T10:00:00Z'"},
          {"'for ' + duration('P1D')", "'for P1D'"},
          {"duration('PT5M') + '.'", "'PT5M.'"},
          {"'a' + 1 + 2.5", "'a12.5'"},
          {"'a' + null", "null"},
          {"'a' + ['b']", "['a', 'b']"}});
  EXPECT_EQ(Run("UNWIND [true, date('2024-05-01'), 'x', 1] AS v RETURN 'a' + v"),
            (std::vector<std::string>{"'a1'", "'a2024-05-01'", "'atrue'", "'ax'"}));
  ExpectError("InvalidArgumentType",
              {"true + 1", "true + false", "date('2024-05-01') + 1", "'a' + {b: 1}",
               "head([true]) || 'a'", "head(['a']) || head([date('2024-05-01')])"});
}

TEST_F(FunctionsTest, MonthsThatEndWhereClocksSkip_AreLeftForwardBeforeDaysAreAdded) {
  const std::string january = "datetime('2024-01-31T02:30[Europe/Berlin]')";
  Expect({{"toString(" + january + " + duration({months: 2}))",
           "'2024-03-31T03:30:00+02:00[Europe/Berlin]'"},
          {"toString(" + january + " + duration({months: 2, days: 1}))",
           "'2024-04-01T03:30:00+02:00[Europe/Berlin]'"},
          {"toString(datetime('2024-05-31T02:30[Europe/Berlin]') - duration({months: 2, days: 1}))",
           "'2024-03-30T03:30:00+01:00[Europe/Berlin]'"},
          // Neither ends in a gap.
          {"toString(datetime('2024-02-29T02:30[Europe/Berlin]') + duration({months: 1, days: 1}))",
           "'2024-03-30T02:30:00+01:00[Europe/Berlin]'"},
          {"toString(localdatetime('2024-01-31T02:30') + duration({months: 2, days: 1}))",
           "'2024-04-01T02:30:00'"}});
}

TEST_F(FunctionsTest, Cases_OfLettersOfAllScripts_AreChanged) {
  Expect({{"toUpper('ƀǆȼɏѡԯաֆḁἀὠａｚﬁ')", "'ɃǄȻɎѠԮԱՖḀἈὨＡＺﬁ'"},
          {"toLower('ɃǄȻɎѠԮԱՖḀἈὨＡＺﬁ')", "'ƀǆȼɏѡԯաֆḁἀὠａｚﬁ'"},
          {"toUpper('azäéÿµıſςΐ×÷ǅ')", "'AZÄÉŸΜISΣΐ×÷Ǆ'"},
          {"toLower('AZÄÉŸẞΣ×÷ǅᾈ')", "'azäéÿßσ×÷ǆᾀ'"},
          {"toUpper('\U00010428') = '\U00010400'", "true"}});
}

TEST_F(FunctionsTest, SpacesThatAreTrimmed_AreThoseOfJava) {
  const std::string all =
      "\t\n\v\f\r\x1C\x1D\x1E\x1F \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009"
      "\u200A\u2028\u2029\u205F\u3000";
  for (const std::string kept : {"a", "\u00A0", "\u2007", "\u202F", "\uFEFF", "\u200B", "\u0085"}) {
    const std::string text = "'" + all + kept + "b" + kept + all + "'";
    const std::string middle = kept + "b" + kept;
    Expect({{"trim(" + text + ") = '" + middle + "'", "true"},
            {"btrim(" + text + ") = '" + middle + "'", "true"},
            {"ltrim(" + text + ") = '" + middle + all + "'", "true"},
            {"rtrim(" + text + ") = '" + all + middle + "'", "true"}});
  }
  Expect({{"size(trim('" + all + "'))", "0"}, {"ltrim('\u3000a', ' ') = '\u3000a'", "true"}});
}

TEST_F(FunctionsTest, PlacesThatAreNull_AreErrorsUnlessTheTextIs) {
  Expect({{"left(null, 1)", "null"},
          {"right(null, null)", "null"},
          {"substring(null, 1, null)", "null"},
          {"left('äbc', 2)", "'äb'"},
          {"substring('äbc', 1)", "'bc'"}});
  ExpectError("InvalidArgumentType",
              {"left('abc', null)", "right('abc', null)", "substring('abc', null)",
               "substring('abc', 1, null)", "substring('abc', null, 1)"});
  EXPECT_EQ(Run("UNWIND ['abc', null, 'de', 'f', null] AS s RETURN left(s, 1)"),
            (std::vector<std::string>{"'a'", "'d'", "'f'", "null", "null"}));
}

TEST_F(FunctionsTest, Replace_TheEmptyText_StandsBetweenCharacters) {
  Expect({{"replace('abc', '', 'x')", "'xaxbxcx'"},
          {"replace('äb', '', '--')", "'--ä--b--'"},
          {"replace('', '', 'x')", "'x'"},
          {"replace('abc', '', '')", "'abc'"},
          {"replace('abc', null, 'x')", "null"}});
}

TEST_F(FunctionsTest, ToInteger_OfDecimals_HasAllDigits) {
  Expect({{"toInteger('9007199254740993.0')", "9007199254740993"},
          {"toInteger('-9223372036854775808.9')", "-9223372036854775808"},
          {"toInteger('9223372036854775807.5')", "9223372036854775807"},
          {"toInteger('12.99e1')", "129"},
          {"toInteger('1e18')", "1000000000000000000"},
          {"toInteger('0e99999999999999999999')", "0"},
          {"toInteger('1e-99999999999999999999')", "0"},
          {"toInteger('12345e-2')", "123"},
          {"toInteger('.5')", "0"},
          {"toInteger('+3.7')", "3"},
          {"toInteger('+-5')", "null"},
          {"toInteger('+-5.5')", "null"},
          {"toInteger('-+5')", "null"},
          {"toInteger('+')", "null"},
          {"toFloat('+-5')", "null"},
          {"toInteger('-0.9')", "0"},
          {"toInteger(' 92233720368547758.07E+2 ')", "9223372036854775807"},
          {"toIntegerOrNull('1.5x')", "null"},
          {"toIntegerList(['9007199254740993.5', '7.'])", "[9007199254740993, 7]"}});
}

TEST_F(FunctionsTest, ToInteger_OfWhatHasMoreThan64Bits_IsAnErrorOrTheNearest) {
  ExpectError("NumberOutOfRange",
              {"toInteger('99999999999999999999')", "toInteger('9223372036854775808')",
               "toInteger('9223372036854775808.0')", "toInteger('-9223372036854775809')",
               "toInteger(' 1e19 ')", "toInteger('-1e400')"});
  Expect({{"toInteger(1e30)", "9223372036854775807"},
          {"toInteger(-1e30)", "-9223372036854775808"},
          {"toInteger(9223372036854775808.0)", "9223372036854775807"},
          {"toInteger(1.0 / 0)", "9223372036854775807"},
          {"toInteger(-1.0 / 0)", "-9223372036854775808"},
          {"toInteger(0.0 / 0)", "0"},
          {"toInteger(-2.9)", "-2"},
          {"toInteger('Infinity')", "null"},
          {"toInteger('NaN')", "null"},
          {"toIntegerOrNull('99999999999999999999')", "null"},
          {"toIntegerOrNull('1e19')", "null"},
          {"toIntegerOrNull(1e30)", "null"},
          {"toIntegerList(['99999999999999999999', '1'])", "[null, 1]"}});
}

TEST_F(FunctionsTest, Bytes_AreATypeOfTheirOwn) {
  parameters_ = {{"b", Value::MakeBytes(std::string_view("\0\xff", 2))},
                 {"c", Value::MakeBytes("c")}};
  Expect({{"$b", "bytes('AP8=')"},
          {"[$b]", "[bytes('AP8=')]"},
          {"$b = $b", "true"},
          {"$b = $c", "false"},
          {"$b = [0, 255]", "false"},
          {"$b < $c", "true"},
          {"$b < 'c'", "null"},
          {"$b IN [1, $b]", "true"},
          {"size($b)", "2"},
          {"isEmpty($b)", "false"},
          {"valueType($b)", "'BYTES NOT NULL'"},
          {"$b IS :: BYTES", "true"},
          {"$b IS :: PROPERTY VALUE", "true"},
          {"$b IS :: ANY", "true"},
          {"$b IS :: LIST<INTEGER>", "false"},
          {"toStringOrNull($b)", "null"},
          {"{b: $b}.b", "bytes('AP8=')"}});
  EXPECT_EQ(Run("UNWIND [$c, $b, $c, null, 1] AS x WITH DISTINCT x ORDER BY x DESC "
                "RETURN collect(x) "),
            (std::vector<std::string>{"[bytes('Yw=='), bytes('AP8='), 1]"}));
  EXPECT_EQ(Run("UNWIND [$c, $b, $c] AS x WITH x, count(*) AS n RETURN [x, n]"),
            (std::vector<std::string>{"[bytes('AP8='), 1]", "[bytes('Yw=='), 2]"}));
  ExpectError("InvalidArgumentType", {"$b[0]", "$b + $c", "$b.x", "-$b"});
  ExpectError("InvalidArgumentValue", {"toString($b)"});
}

TEST_F(FunctionsTest, Points_AreMadeTakenApartAndCompared) {
  const std::string flat = "point({x: 1, y: 2.5})", earth = "point({longitude: 1, latitude: 2})";
  Expect({{flat, "point({x: 1.0, y: 2.5, crs: 'cartesian'})"},
          {"point({x: 1, y: 2, z: 3, srid: 9157})",
           "point({x: 1.0, y: 2.0, z: 3.0, crs: 'cartesian-3d'})"},
          {"point(null)", "null"},
          {"point({x: 1, y: null})", "null"},
          {"toString(" + earth + ")", "'point({x: 1.0, y: 2.0, crs: \\'wgs-84\\'})'"},
          {"valueType(" + flat + ")", "'POINT NOT NULL'"},
          {flat + " IS :: POINT", "true"},
          {"1 IS :: POINT", "false"},
          {"null IS :: POINT", "true"},
          {flat + " IS :: PROPERTY VALUE", "true"},
          {flat + ".x", "1.0"},
          {flat + ".srid", "7203"},
          {earth + ".latitude", "2.0"},
          {earth + ".CRS", "'wgs-84'"},
          {"{p: " + flat + "}.p.y", "2.5"},
          {"point(null).x", "null"},
          {flat + " = point({y: 2.5, x: 1.0})", "true"},
          {flat + " = " + earth, "false"},
          {flat + " < point({x: 9, y: 9})", "null"},
          {flat + " IN [1, " + flat + "]", "true"},
          {"point.distance(point({x: 0, y: 0}), point({x: 3, y: 4}))", "5.0"},
          {"Point.Distance(" + flat + ", " + flat + ")", "0.0"},
          {"point.distance(" + flat + ", " + earth + ")", "null"},
          {"point.distance(" + flat + ", null)", "null"},
          {"point.withinBBox(" + flat + ", point({x: 0, y: 0}), point({x: 2, y: 3}))", "true"},
          {"point.withinBBox(" + flat + ", point({x: 0, y: 0}), point({x: 2, y: 2}))", "false"},
          {"point.withinBBox(" + flat + ", " + earth + ", " + earth + ")", "null"}});
  ExpectError("InvalidArgumentValue",
              {flat + ".z", flat + ".latitude", flat + ".foo", "point({})", "point({x: 1})",
               "point({x: 'a', y: 1})", "point({x: 1, y: 2, crs: 'no'})",
               "point({longitude: 0, latitude: 91})", "point({x: 1, y: 0.0 / 0})"});
  ExpectError("compile time", {"point(1)", "point.distance(1, 2)", "point()", "point.foo(1)"});
  parameters_ = {{"n", Value::Int(1)}};
  ExpectError("InvalidArgumentType", {"point($n)", flat + "[0]", "-" + flat, flat + " - " + flat,
                                      flat + " + 'a'", "'a' + " + flat});
  EXPECT_EQ(Of("point.distance($n, $n)"), "null");
}

TEST_F(FunctionsTest, Points_AreOrderedGroupedAndStored) {
  EXPECT_EQ(Run("UNWIND [date('2020-01-01'), point({x: 2, y: 0}), [1], point({x: 1, y: 5}), "
                "point({longitude: 9, latitude: 9})] AS v WITH v ORDER BY v RETURN collect(v)"),
            (std::vector<std::string>{
                "[[1], point({x: 9.0, y: 9.0, crs: 'wgs-84'}), point({x: 1.0, y: 5.0, crs: "
                "'cartesian'}), point({x: 2.0, y: 0.0, crs: 'cartesian'}), '2020-01-01']"}));
  EXPECT_EQ(Run("UNWIND [point({x: 0, y: 1}), point({x: -0.0, y: 1}), point({x: 0, y: 1, z: 0})] "
                "AS p RETURN count(DISTINCT p)"),
            std::vector<std::string>{"2"});
  const Token x = *graph_.AddKeyName("x"), y = *graph_.AddKeyName("y"), p = *graph_.AddKeyName("p");
  ASSERT_TRUE(graph_
                  .CreateNode({}, {{x, Value::Int(3)},
                                   {y, Value::Int(4)},
                                   {p, Value::MakePoint({Crs::kCartesian, 1, 2, 0})}})
                  .ok());
  EXPECT_EQ(Run("MATCH (n) RETURN point(n)"),
            std::vector<std::string>{"point({x: 3.0, y: 4.0, crs: 'cartesian'})"});
  EXPECT_EQ(Run("MATCH (n {p: point({x: 1, y: 2})}) RETURN n.p.y"),
            std::vector<std::string>{"2.0"});
}

TEST_F(FunctionsTest, ComponentsOfTemporalValues_AreFoundInAnyCase) {
  const std::string date = "date('2024-05-01')", duration = "duration('P14M3DT5H')";
  Expect({{date + ".year", "2024"},
          {date + ".YEAR", "2024"},
          {date + ".weekday", "3"},
          {date + ".dayOfQuarter", "31"},
          {date + ".quarterDay", "31"},
          {"localtime('12:30').Minute", "30"},
          {"datetime('2024-05-01T10:00+02:00').OFFSET", "'+02:00'"},
          {"datetime('1970-01-01T00:01Z').epochseconds", "60"},
          {duration + ".months", "14"},
          {duration + ".monthsofyear", "2"},
          {duration + ".HOURS", "5"}});
}

TEST_F(FunctionsTest, ComponentsThatATemporalValueDoesNotHave_AreErrors) {
  ExpectError(
      "InvalidArgumentValue",
      {"date().foo", "date().hour", "date().timezone", "localtime().year", "localdatetime().offset",
       "time().epochSeconds", "duration('P1D').foo", "duration('P1D').year", "[date()][0].foo"});
  Expect(
      {{"date(null).foo", "null"}, {"duration(null).foo", "null"}, {"head([null]).foo", "null"}});
  EXPECT_EQ(Run("UNWIND [date('2024-05-01'), null] AS d RETURN d.day"),
            (std::vector<std::string>{"1", "null"}));
  for (const char* query : {"UNWIND [date(), null, date(), date(), date()] AS d RETURN d.foo",
                            "UNWIND [{d: date()}, {d: null}, {}, {}, {}] AS m RETURN m.d.foo"}) {
    const auto plan = MakePlan(query, graph_, nullptr);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const size_t columns_from : {size_t{1}, ~size_t{0}}) {
      EXPECT_EQ(InfoOf(RowsOf(**plan, columns_from).status()).detail, "InvalidArgumentValue");
    }
  }
}

TEST_F(FunctionsTest, TextsOfDurations_InAnyCaseAndWithCommas_AreTaken) {
  Expect({{"toString(duration('p1d'))", "'P1D'"},
          {"toString(duration('P1,5D'))", "'P1DT12H'"},
          {"toString(duration('-p1y2m3w4dt5h6m7,5s'))", "'P-1Y-2M-25DT-5H-6M-7.5S'"},
          {"toString(duration('pt0,25h'))", "'PT15M'"},
          {"toString(duration('p2012-02-02t14:37:21,545'))", "'P2012Y2M2DT14H37M21.545S'"}});
  ExpectError("InvalidArgumentValue", {"duration('d1p')", "duration('P1,5,2D')", "duration('P,D')",
                                       "duration('p1')", "duration('p1h')"});
}

TEST_F(FunctionsTest, SimilarityOfVectors_IsWithin0And1) {
  const std::string cosine = "vector.similarity.cosine", euclidean = "vector.similarity.euclidean";
  Expect({{cosine + "([1, 2, 3], [1, 2, 3])", "1.0"},
          {cosine + "([1, 2], [2.0, 4.0])", "1.0"},
          {cosine + "([1, 0], [-3, 0])", "0.0"},
          {cosine + "([1, 0], [0, 0.5])", "0.5"},
          {"abs(" + cosine + "([4.0, 5.0, 6.0], [2.0, 8.0, 3.0]) - 0.9285714) < 0.000001", "true"},
          {cosine + "([1e300, 1e300], [1e-300, 1e-300])", "1.0"},
          {euclidean + "([1, 2], [1.0, 2.0])", "1.0"},
          {euclidean + "([1, 0], [0, 0])", "0.5"},
          {euclidean + "([0, 0], [3, 4])", FloatText(1.0 / 26)},
          {euclidean + "([1e300], [-1e300])", "0.0"},
          {"VECTOR.Similarity.COSINE([1], [2])", "1.0"},
          {cosine + "(null, [1])", "null"},
          {cosine + "([1], null)", "null"},
          {euclidean + "(null, null)", "null"}});
  ExpectError("InvalidArgumentValue",
              {cosine + "([0, 0.0], [1, 2])", cosine + "([1, 2], [0, -0.0])"});
  for (const std::string& function : {cosine, euclidean}) {
    ExpectError("InvalidArgumentValue",
                {function + "([1, 2], [1])", function + "([], [])", function + "([1], ['1'])",
                 function + "([null], [1])", function + "([1], [0.0 / 0])",
                 function + "([1.0 / 0], [1])", function + "([[1]], [1])"});
    ExpectError("compile time", {function + "(1, [1])", function + "([1])"});
    ExpectError("InvalidArgumentType", {function + "(head([1]), [1])"});
  }
}

TEST_F(FunctionsTest, PercentileCont_OfAnInfiniteValue_IsThat) {
  EXPECT_EQ(Run("UNWIND [1.0 / 0, 1.0] AS x RETURN percentileCont(x, 1.0)"),
            std::vector<std::string>{"Infinity"});
  EXPECT_EQ(Run("UNWIND [1.0 / 0, -1.0 / 0, 2.5] AS x RETURN percentileCont(x, 0.5)"),
            std::vector<std::string>{"2.5"});
  EXPECT_EQ(Run("UNWIND [-1.0 / 0, 1.0] AS x RETURN percentileCont(x, 0)"),
            std::vector<std::string>{"-Infinity"});
}

TEST_F(FunctionsTest, PercentileDisc_OfEqualNumbers_IsTheIntegerInAnyOrder) {
  EXPECT_EQ(Run("UNWIND [1.0, 1] AS x RETURN percentileDisc(x, 0)"), std::vector<std::string>{"1"});
  EXPECT_EQ(Run("UNWIND [1, 1.0] AS x RETURN percentileDisc(x, 0)"), std::vector<std::string>{"1"});
}

TEST_F(FunctionsTest, Average_WhoseSumIsNoDouble_IsTheMean) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1e308, 1e308]", "1.0E308"},
      {"[-1e308, -1e308]", "-1.0E308"},
      {"[1e308, 1e308, -1e308, -1e308, 5.0]", "1.0"},
      {"[1e308, 1e308, -1e308, -1e308, 9007199254740992, 0, 0, 0]", "1.125899906842624E15"},
      {"[1e308, 1e308, null, 1.0 / 0]", "Infinity"},
      {"[1.0 / 0, 1e308, 1e308]", "Infinity"},
      {"[1e308, 1e308, -1.0 / 0, 1e308]", "-Infinity"},
      {"[1e308, 1e308, 1.0 / 0, -1.0 / 0, 1.0]", "NaN"}};
  for (const auto& [list, expected] : cases) {
    const std::string rows = Concat("UNWIND ", list, " AS x RETURN ");
    EXPECT_EQ(Run(rows + "avg(x)"), std::vector<std::string>{expected}) << list;
    EXPECT_EQ(Run(rows + "[avg(x), count(x), avg(x)][2]"), std::vector<std::string>{expected});
  }
  EXPECT_EQ(Run("UNWIND [1e308, 1e308] AS x RETURN sum(x)"), std::vector<std::string>{"Infinity"});
  // Of as many of the greatest number.
  EXPECT_EQ(Run("UNWIND range(1, 1000) AS i RETURN 1.79769e308 < avg(1.7976931348623157e308) < "
                "1.0 / 0"),
            std::vector<std::string>{"true"});
}

TEST_F(FunctionsTest, Average_OfPropertiesWhoseSumIsNoDouble_IsTheMean) {
  const Token label = *graph_.AddLabelName("W"), key = *graph_.AddKeyName("w");
  for (const int w : {1, 1, 1, -1, -1, 1, 0, 0}) {
    ASSERT_TRUE(graph_.CreateNode({&label, 1}, {{key, Value::Float(w * 0x1p1023)}}).ok());
  }
  EXPECT_NE(PlanOf("MATCH (n:W) RETURN avg(n.w)").find("AggregateColumns"), std::string::npos);
  const std::vector<std::string> mean = {FloatText(0x1p1021)};
  EXPECT_EQ(Run("MATCH (n:W) RETURN avg(n.w)"), mean);
  EXPECT_EQ(Run("MATCH (n:W) WHERE id(n) >= 0 RETURN avg(n.w)"), mean);
  EXPECT_EQ(Run("MATCH (n:W) WHERE id(n) >= 0 WITH 1 AS one, avg(n.w) AS mean RETURN mean"), mean);
}

}  // namespace
}  // namespace pulse::cypher
