"""Figures and targets: what follows from the single runs."""
import math
import unittest

from samples import PULSE, STOCK, aim, ReportTestCase, run
from figures import (WITH_BACKLOG, FigureRow, Quantity, format_figure, format_spread, lacks_whole,
                     paper_values, rows_of)
from model import Spread
import targets


def row(*runs):
    return FigureRow({"label": "1024 B", "runs": list(runs)})


def result(pulse, stock_stalls=0.0, pulse_stalls=0.0, drift=1.0):
    """Two pairs: in the second one PulseDB is `drift` times as fast as in the first."""
    return {"settings": {"tiny": False}, "rows": [{"label": "1024 B", "runs": [
        run(name, pair, speed * (drift if name == PULSE and pair == 2 else 1), stall_share=stalls)
        for pair in (1, 2) for name, speed, stalls in ((STOCK, 100, stock_stalls),
                                                       (PULSE, pulse, pulse_stalls))]}]}


def judge(listed, found):
    return targets.judge(targets.aims_in({"targets": [listed]})[0], found)


class FiguresTest(ReportTestCase):
    def test_Row_SeveralPairs_MediansAndRatiosWithinThePair(self):
        found = row(run(STOCK, 1, 10), run(PULSE, 1, 20), run(STOCK, 2, 20), run(PULSE, 2, 30),
                    run(STOCK, 3, 30), run(PULSE, 3, 90))
        self.assertEqual(found.variants, [STOCK, PULSE])
        self.assertEqual(found.figure("ops_per_s", STOCK), Spread(20, 10, 30, 3))
        self.assertEqual(found.get(Quantity("ops_per_s", PULSE, STOCK)), Spread(2, 1.5, 3, 3))
        self.assertEqual(found.get(Quantity("ops_per_s", PULSE, STOCK, True)).median, 1000)

    def test_Row_RunWithoutTheFigure_MovesNoOtherPair(self):
        found = row(run(STOCK, 1, None), run(PULSE, 1, 20), run(STOCK, 2, 20), run(PULSE, 2, 30),
                    run(PULSE, 3, 50))
        self.assertEqual(found.get(Quantity("ops_per_s", PULSE, STOCK)), Spread(1.5, 1.5, 1.5, 1))

    def test_Row_OddFigures_AreAbsentAndZeroIsAFigure(self):
        found = row(run(STOCK, 1, 0), run(PULSE, 1, 5), {"variant": 7}, None)
        self.assertEqual(found.figure("ops_per_s", STOCK).median, 0)
        self.assertIsNone(found.get(Quantity("ops_per_s", PULSE, STOCK)))  # not infinite
        self.assertIsNone(found.figure("ops_per_s", "nobody"))
        self.assertIsNone(found.get(Quantity("ops_per_s", PULSE, "nobody")))
        for odd in (math.nan, math.inf, True, "7", [7], 10 ** 400):
            self.assertIsNone(row(run(STOCK, 1, odd)).figure("ops_per_s", STOCK), odd)
        self.assertEqual(rows_of(None) + rows_of({"rows": 3}), [])
        self.assertEqual(len(rows_of({"rows": [1, "x", None]})), 3)

    def test_Backlog_CompactionsLeftBehind_CountTheirTime(self):
        found = row(run("soon", 1, 100, wall_s=10, settle_s=0),
                    run("late", 1, 200, wall_s=5, settle_s=15),
                    run("unknown", 1, 200, wall_s=5, settle_s=None))
        self.assertEqual(found.figure(WITH_BACKLOG, "late").median, 50)
        self.assertEqual(found.get(Quantity(WITH_BACKLOG, "late", "soon")).median, 0.5)
        self.assertIsNone(found.figure(WITH_BACKLOG, "unknown"))
        # By that, another one is the best.
        self.assertEqual(found.against(Quantity("ops_per_s", "unknown", "soon|late")), "late")
        self.assertEqual(found.against(Quantity(WITH_BACKLOG, "unknown", "soon|late")), "soon")

    def test_LacksWhole_NoWholeCompaction_SaysWho(self):
        found = row(run(STOCK, 1, 1), run("dcomp", 1, 2, whole_compactions=0))
        self.assertEqual(lacks_whole(found, Quantity("ops_per_s", "dcomp", STOCK)),
                         "dcomp: no compaction ran whole in 1 of 1 runs")
        self.assertEqual(lacks_whole(found, Quantity("ops_per_s", STOCK)), "")

    def test_PaperValues_BrokenItems_AreLeftOut(self):
        self.assertEqual(paper_values({"values": [{"what": "x", "by_row": {"A": 1}}, 3, None]}), [])
        found = paper_values({"values": [{"least": 1, "most": 2, "ours": {"metric": "m", "of": "a"}},
                                         {"value": 3, "ours": {"metric": "m", "of": "a"}}]})
        self.assertEqual([value.is_range for value in found], [True, False])

    def test_Format_AnyFigure_IsShort(self):
        for value, text in ((0, "0"), (0.0523, "0.052"), (1.084, "1.08"), (12.34, "12.3"),
                            (123.4, "123"), (999.7, "1,000"), (1234567, "1,234,567"),
                            (-1234, "-1,234"), (math.nan, "–")):
            self.assertEqual(format_figure(value), text)
        self.assertEqual(format_spread(Spread(1.5, 1, 2)), "1.50 (1.00 – 2.00)")
        self.assertEqual(format_spread(Spread(1.5, 1.4999, 1.5001)), "1.50")


class TargetsTest(ReportTestCase):
    def test_Judge_AllPairsOrNone_HeldOrMissed(self):
        self.assertEqual(judge(aim(), result(160)).verdict, targets.HELD)
        found = result(159)
        # The ratio that the file states is not believed.
        found["rows"][0]["ratios"] = [{"ratio": "ops_per_s, pulse / stock-default", "median": 9}]
        self.assertEqual(judge(aim(), found).verdict, targets.MISSED)

    def test_Judge_SomePairs_NotClear(self):
        judged = judge(aim(), result(159, drift=1.2))
        self.assertEqual((judged.verdict, judged.why), (targets.NOT_CLEAR, "the pairs differ"))
        self.assertGreater(judged.got.median, 1.6)
        found = result(200)
        found["rows"][0]["runs"] = found["rows"][0]["runs"][:2]
        self.assertEqual(judge(aim(), found).why, "one pair has no spread")

    def test_Judge_EachKind_HasItsLimits(self):
        for kind, value, verdict in (("at least", 1.6, "held"), ("at most", 1.6, "held"),
                                     ("above", 1.6, "missed"), ("above", 1.5, "held"),
                                     ("at most", 1.5, "missed")):
            self.assertEqual(judge(aim(kind=kind, value=value), result(160)).verdict, verdict, kind)
        within = aim(kind="within", value=1.5)
        within["target"]["most"] = 1.7
        self.assertEqual(judge(within, result(160)).verdict, targets.HELD)
        self.assertEqual(judge(within, result(180)).verdict, targets.MISSED)
        self.assertEqual(judge(within, result(140, drift=1.5)).verdict, targets.NOT_CLEAR)

    def test_Judge_OneOfSeveralDidNotRun_NotMeasured(self):
        listed = aim()
        listed["quantity"]["over"] = f"{STOCK}|dcomp"
        judged = judge(listed, result(200))
        self.assertEqual(judged.verdict, targets.NOT_MEASURED)
        self.assertIn("dcomp", judged.why)
        self.assertEqual(judge(listed, result(100)).verdict, targets.MISSED)

    def test_Judge_NotMeasured_SaysWhy(self):
        self.assertEqual(judge(aim(), None).verdict, targets.NOT_MEASURED)
        self.assertEqual(judge(aim(), None).why, "")
        self.assertIn("no such figure", judge(aim(row="A"), result(200)).why)
        tiny = result(200)
        tiny["settings"]["tiny"] = True
        judged = judge(aim(), tiny)
        self.assertEqual(judged.verdict, targets.NOT_MEASURED)
        self.assertIn("tiny", judged.why)

    def test_Judge_StallsThatAreNot_CannotBeLost(self):
        stalls = aim("tails", value=19, metric="stall_share", of=STOCK, over=PULSE, points=True)
        self.assertEqual(judge(stalls, result(100, 0.5, 0.3)).verdict, targets.HELD)
        self.assertEqual(judge(stalls, result(100, 0.5, 0.4)).verdict, targets.MISSED)
        few = judge(stalls, result(100, 0.12, 0.0))
        self.assertEqual(few.verdict, targets.NOT_SHOWN)
        self.assertIn("12.0 %", few.why)
        # That PulseDB stalls where stock does not is not hidden by that.
        self.assertEqual(judge(stalls, result(100, 0.001, 0.2)).why,
                         "stock did not stall; pulse stalled 20.0 %")

    def test_Judge_SeveralVariants_HeldIsAgainstEach(self):
        def of(**speeds):
            return {"rows": [{"label": "1024 B", "runs": [
                run(name.replace("_", "-"), pair + 1, speed, whole_compactions=2)
                for name, series in speeds.items() for pair, speed in enumerate(series)]}]}
        best = aim("dcomp-bf2", value=1, of="adaptive", over=f"{STOCK}|dcomp|{PULSE}")
        judged = judge(best, of(stock_default=[100, 100], dcomp=[120, 120], pulse=[150, 150],
                                adaptive=[149, 149]))
        self.assertEqual(judged.verdict, targets.MISSED)
        self.assertIn("(pulse)", judged.what)
        # Another than the best by its median may be ahead in a pair.
        judged = judge(best, of(stock_default=[100, 100, 160], pulse=[150] * 3, adaptive=[155] * 3))
        self.assertEqual((judged.verdict, judged.why), (targets.NOT_CLEAR, "the pairs differ"))
        self.assertIn(f"({STOCK})", judged.what)

    def test_Judge_NoWholeCompaction_NotMeasuredUnlessMissed(self):
        found = {"rows": [{"label": "1024 B", "runs": [
            run(name, pair, speed, whole_compactions=whole) for pair in (1, 2) for name, speed, whole
            in (("adaptive", 149, 2), ("dcomp", 120, 0), (PULSE, 150, 0))]}]}
        lower = aim(value=0.97, of="adaptive", over=f"dcomp|{PULSE}")
        judged = judge(lower, found)
        self.assertEqual(judged.verdict, targets.NOT_MEASURED)
        self.assertEqual(judged.why, "dcomp: no compaction ran whole in 2 of 2 runs")
        higher = aim(value=1, of="adaptive", over=f"dcomp|{PULSE}")
        self.assertEqual(judge(higher, found).verdict, targets.MISSED)


if __name__ == "__main__":
    unittest.main()
