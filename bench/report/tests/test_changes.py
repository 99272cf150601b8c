"""A report against an earlier one."""
import contextlib
import io
import json
import unittest

from samples import ReportTestCase
import changes
import report
import results
from model import Spread


def runs(rates, waits, pairs=3):
    return {"benchmark": "fill", "settings": {"tiny": False}, "value_sizes": [{"value_bytes": 1024, "runs": [
        {"variant": name, "pair": pair, "ops_per_s": rate + pair / 100, "p99_us": wait + pair / 100,
         "tables": 12}
        for (name, rate), wait in zip(rates.items(), waits) for pair in range(1, pairs + 1)]}]}


class ChangesTest(ReportTestCase):
    def compared(self, before, now):
        folder = self.dir
        (folder / "earlier").mkdir(exist_ok=True)
        self.put("earlier/fill.json", before)
        self.put("fill.json", now)
        return changes.page(results.load(folder / "earlier", []), results.load(folder, []))

    def test_Verdict_SpreadsApart_IsWorseOrBetterByTheMetric(self):
        low, high = Spread(1.0, 0.9, 1.1, 3), Spread(1.3, 1.2, 1.4, 3)
        self.assertEqual(changes.verdict(low, high, 1), changes.BETTER)
        self.assertEqual(changes.verdict(high, low, 1), changes.WORSE)
        self.assertEqual(changes.verdict(low, high, -1), changes.WORSE)
        self.assertEqual(changes.verdict(low, Spread(1.3, 1.1, 1.4, 3), 1), "")
        self.assertEqual(changes.verdict(low, Spread(1.3, 1.2, 1.4, 1), 1), "")

    def test_Page_RatioThatFell_IsWorse(self):
        page = self.compared(runs({"stock": 100, "pulse": 150}, (10, 5)),
                             runs({"stock": 200, "pulse": 220}, (10, 5)))
        self.assertIn("2 ratios are in both: 1 have become worse, 0 better", page.statement)
        (table,) = page.tables
        self.assertEqual(table.rows[0][0], "fill, 1024 B: ops_per_s, pulse ÷ stock")
        self.assertEqual(table.rows[0][3], "worse")

    def test_Page_FasterMachine_IsNoChange(self):
        page = self.compared(runs({"stock": 100, "pulse": 150}, (10, 5)),
                             runs({"stock": 200, "pulse": 300}, (5, 2.5)))
        self.assertIn("0 have become worse, 0 better", page.statement)

    def test_Page_KeysOfEarlierReleases_AreUnderstood(self):
        before = json.loads(json.dumps(runs({"stock": 100, "pulse": 150}, (10, 5)))
                            .replace('"variant"', '"opponent"'))
        page = self.compared(before, runs({"stock": 200, "pulse": 220}, (10, 5)))
        self.assertIn("2 ratios are in both: 1 have become worse", page.statement)

    def test_Page_SinglePair_SaysNothing(self):
        page = self.compared(runs({"stock": 100, "pulse": 150}, (10, 5), pairs=1),
                             runs({"stock": 100, "pulse": 50}, (10, 50), pairs=1))
        self.assertIn("0 have become worse", page.statement)
        self.assertIn("2 are of a single pair", page.statement)

    def test_Page_NothingInCommon_SaysSo(self):
        page = self.compared({"benchmark": "fill"}, runs({"stock": 1, "pulse": 2}, (1, 1)))
        self.assertIn("0 ratios", page.statement)
        self.assertEqual(page.notes, ["Nothing that was measured here was measured there.",
                                      "Only here: fill (1024 B)."])

    def test_Page_WhatOneOfBothHas_IsNamed(self):
        both = runs({"stock": 100, "pulse": 150}, (10, 5))
        (self.dir / "earlier").mkdir()
        self.put("earlier/ring.json", both)
        self.put("earlier/kv.json", "{")
        for name in ("kv", "ops"):
            self.put(f"{name}.json", both)
        more = runs({"stock": 100, "pulse": 150}, (10, 5))
        more["value_sizes"].append({**more["value_sizes"][0], "value_bytes": 64})
        page = self.compared(more, both)
        self.assertIn("Only there: fill (64 B), ring.", page.notes)
        self.assertIn("Only here: kv, ops.", page.notes)
        self.assertAnyHas("earlier/kv.json is no JSON", page.notes)

    def test_Report_WithEarlierOne_BeginsWithTheChanges(self):
        (self.dir / "earlier").mkdir()
        self.put("earlier/fill.json", runs({"stock": 100, "pulse": 150}, (10, 5)))
        self.put("fill.json", runs({"stock": 200, "pulse": 220}, (10, 5)))
        words = [str(self.dir), "--against", str(self.dir / "earlier"), "--out", str(self.dir / "page.html")]
        self.assertEqual(report.main(words), 0)
        page = (self.dir / "page.html").read_text(encoding="utf-8")
        self.assertLess(page.index("Against the results in"), page.index('id="fill"'))
        self.assertIn('<td class="missed">worse', page)

    def test_Report_DamagedEarlierResult_IsSaidBeforeAndAfterMeasuring(self):
        (self.dir / "earlier").mkdir()
        self.put("earlier/fill.json", runs({"stock": 100, "pulse": 150}, (10, 5)))
        self.put("earlier/ring.json", "{")
        self.put("fill.json", runs({"stock": 200, "pulse": 220}, (10, 5)))
        for words in (["--check"], [str(self.dir)]):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(report.main([*words, "--against", str(self.dir / "earlier")]), 0)
            self.assertIn("earlier/ring.json is no JSON", said.getvalue())

    def test_Report_WithoutEarlierResults_IsRefused(self):
        self.put("fill.json", runs({"stock": 200, "pulse": 220}, (10, 5)))
        (self.dir / "earlier").mkdir()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(report.main([str(self.dir), "--against", str(self.dir / "earlier")]), 2)
        self.assertIn("has no result", said.getvalue())


if __name__ == "__main__":
    unittest.main()
