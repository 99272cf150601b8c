"""The store, the operators and the graphs at the head of the report, among its targets, and against an
earlier report."""
import unittest

from samples import ReportTestCase
import changes
import results
import service_ratios


def kv(lat=2.0, pairs=2, tiny=False):
    return {"benchmark": "kv", "settings": {"pairs": pairs, "tiny": tiny}, "parts": {"network-C-uniform": {"runs": [
        {"variant": name, "pair": pair, "ops_per_s": rate * 1e6 + pair}
        for name, rate in (("cpu", 10), ("lat", 10 * lat), ("cpu-2", 20)) for pair in range(1, pairs + 1)]}},
        "ratios": [{"ratio": "host time, lat / cpu", "target": "at most 0.55", "median": 0.5, "min": 0.4,
                    "max": 0.52, "count": 2, "verdict": "held"}, {"ratio": "of no target", "median": 3}]}


def ops(*reached, tiny=False, card="none", limit=0.0):
    return {"benchmark": "ops", "settings": {"pairs": 3, "tiny": tiny}, "offload": [
        {"card": card, "replayed": card != "none", "of_replay_limit": limit, "operation": "regex",
         "title": f"row {i}", "auto_by_best": by,
         "auto_by_best_least": by - 0.01, "auto_by_best_most": by + 0.01} for i, by in enumerate(reached)],
        "codecs": [{"operation": "compress", "file": "log", "by": by, "mib_per_s": rate}
                   for by, rate in (("zlib", 100), ("igzip", 300))]}


def graph(agent=(100, 102), inline_cpu=1.0, fell_back=0):
    everyone = {"none": (50, 52), "threads_same": (200, 210), "thread_other": (100, 100), "agent_other": agent}
    return {"benchmark": "graph", "settings": {"pairs": 2}, "beside": {"rows": [
        {"key": key, "compactions_by": f"by {key}", "p99_s_all": [micros * 1e-6 for micros in all_pairs],
         "fell_back": fell_back if key == "agent_other" else 0}
        for key, all_pairs in everyone.items()]}, "merge": {"memcpy_gib_per_s": 10.0, "rows": [
            {"input": f"blocks, {size}", "bytes": size, "engine": engine, "gib_per_s": rate,
             "gib_per_s_least": rate - 0.5, "gib_per_s_most": rate + 0.5, "caller_cpu_s_per_gib": cpu}
            for size in (64, 128) for engine, rate, cpu in (("inline", 8, inline_cpu), ("agent", 9, 0.1))]}}


class ServicesTest(ReportTestCase):
    def targets(self, name, result):
        self.put(f"{name}.json", result)
        return {row.what: row for row in self.report().targets}

    def compared(self, name, before, now):
        (self.dir / "earlier").mkdir(exist_ok=True)
        self.put(f"earlier/{name}.json", before)
        self.put(f"{name}.json", now)
        return changes.page(results.load(self.dir / "earlier", []), results.load(self.dir, []))

    def test_Highlights_EachService_HasASentence(self):
        self.put("kv.json", kv())
        self.put("ops.json", ops(0.9, 1.1))
        self.put("graph.json", graph())
        store, operators, graphs = self.report().highlights
        self.assertIn("serves 2.00 times the requests of one CPU", store.sentence)
        self.assertIn("1.00 times those of both CPUs", store.sentence)
        self.assertIn("reach 1.00 times the throughput of the best fixed one (0.90 to 1.10 over 2 rows)",
                      operators.sentence)
        self.assertIn("0.49 times that beside threads on the same CPU (0.49 to 0.50 over 2 pairs)",
                      graphs.sentence)
        self.assertEqual(graphs.chart.groups[3], "by agent_other")

    def test_Highlights_ServiceWithoutItsFigures_IsLeftOut(self):
        self.put("kv.json", {"benchmark": "kv", "parts": {"queue-get": {}}})
        self.put("ops.json", {"benchmark": "ops", "offload": ["none"]})
        self.put("graph.json", {"benchmark": "graph", "beside": []})
        self.assertEqual(self.report().highlights, [])

    def test_Targets_Store_AreJudgedByThePairs(self):
        rows = self.targets("kv", kv(lat=2.0))
        self.assertEqual(rows["YCSB C, uniform: requests/s, lat / cpu"].verdict, "held")
        self.assertEqual(rows["YCSB C, uniform: requests/s, lat / cpu-2"].verdict, "held")
        self.assertEqual(rows["host time, lat / cpu"].verdict, "held")
        self.assertEqual(len(rows), 3)
        rows = self.targets("kv", kv(lat=1.5))
        self.assertEqual(rows["YCSB C, uniform: requests/s, lat / cpu"].verdict, "missed")
        self.assertEqual(self.targets("kv", kv(pairs=1))["YCSB C, uniform: requests/s, lat / cpu"].verdict,
                         "not clear")

    def test_Targets_StoresMemory_IsJudgedByTheBytesOfAnItem(self):
        result = kv()
        for overhead, verdict in ((23.6, "held"), (24.5, "missed")):
            result["parts"]["engine-get"] = {"runs": [
                {"variant": "batch", "pair": pair, "ops_per_s": 2.5e7, "overhead_bytes": overhead}
                for pair in (1, 2)]}
            row = self.targets("kv", result)["engine, 8 B + 8 B: bytes of memory beside key and value, an item"]
            self.assertEqual((row.asked, row.verdict), ("at most 24", verdict))

    def test_Targets_TinyRun_ShowsNothing(self):
        for row in self.targets("kv", kv(tiny=True)).values():
            self.assertEqual((row.verdict, row.why), ("not measured", "a tiny run shows nothing"))
        for row in self.targets("ops", ops(0.5, tiny=True)).values():
            self.assertEqual(row.verdict, "not measured")

    def test_Targets_Operators_TheWorstRowDecides(self):
        row = self.targets("ops", ops(1.2, 0.9, 1.0))["auto ÷ best fixed split, the worst of 3: row 1"]
        self.assertEqual(row.verdict, "missed")
        rows = self.targets("ops", ops(1.2, 1.0))
        self.assertEqual(rows["auto ÷ best fixed split, the worst of 2: row 1"].verdict, "held")

    def test_Highlights_Operators_ReplayedCardsAreApart(self):
        both = ops(1.0)
        both["offload"] += ops(0.5, card="bf2")["offload"]
        self.put("ops.json", both)
        own = "1.00 times the throughput of the best fixed one (1.00 to 1.00 over 1 rows)"
        self.assertIn(f"{own}; on cards that are replayed, 0.50 times", self.report().highlights[0].sentence)
        self.assertIn("regex, card bf2, replayed", self.report().highlights[0].chart.groups)
        self.put("ops.json", ops(0.5, card="bf2"))
        self.assertIn("over 1 rows), on cards that are replayed", self.report().highlights[0].sentence)

    def test_Targets_Operators_ReplayedCardsAreMarked(self):
        row = self.targets("ops", ops(1.2, card="bf2"))["auto ÷ best fixed split, the worst of 1: row 0 (replayed)"]
        self.assertEqual(row.verdict, "held")
        (row,) = self.targets("ops", ops(0.9, card="bf2", limit=0.97)).values()
        self.assertEqual(row.verdict, "not shown here")
        self.assertIn("can replay", row.why)

    def test_Targets_OperatorsWithChanges_AreAboveTheBestSplit(self):
        result = ops()
        result["changes"] = ops(1.2, 1.005)["offload"]
        rows = self.targets("ops", result)
        row = rows["auto ÷ best fixed split, speeds or sizes change, the worst of 2: row 1"]
        self.assertEqual((row.asked, row.verdict), ("above 1", "not clear"))

    def test_Ratios_Regex_BatchesAndReplayedRowsAreNotMixed(self):
        result = {"benchmark": "ops", "settings": {"pairs": 3}, "regex": [
            {"query": "Q1", "buffer": 64, "by": by, "tasks": tasks, "mib_per_s": rate, "replayed": by == "bf2"}
            for by, tasks, rate in (("pulse", 1, 100), ("re2", 1, 50), ("bf2", 1, 10), ("pulse", 8, 200),
                                    ("re2", 8, 20))]}
        self.assertEqual([(label, quantity.of, ratio.median)
                          for label, quantity, ratio in service_ratios.ratios(result)],
                         [("Q1, 64 B, batches of 1", "re2", 0.5), ("Q1, 64 B, batches of 8", "re2", 0.1)])

    def test_Graphs_CompactionsThatFellBack_AreNotMeasured(self):
        rows = self.targets("graph", graph(fell_back=3))
        row = rows["p99 of transactions beside compactions, the agent's ÷ threads on the same CPU"]
        self.assertEqual((row.verdict, row.why),
                         ("not measured", "3 compactions of the agent's fell back to the host"))
        self.assertEqual(self.report().highlights, [])

    def test_Targets_Graphs_AreOfTheLargestList(self):
        rows = self.targets("graph", graph())
        same = "p99 of transactions beside compactions, the agent's ÷ threads on the same CPU"
        self.assertEqual(rows[same].verdict, "held")
        self.assertEqual(rows[same].pairs, 2)
        other = "p99 of transactions beside compactions, the agent's ÷ a thread on the agent's CPU"
        self.assertEqual(rows[other].verdict, "held")
        cpu = rows["host CPU of a compaction, agent ÷ inline, blocks, 128"]
        self.assertEqual((cpu.verdict, cpu.why), ("not clear", "one pair has no spread"))
        self.assertEqual(rows["throughput of a compaction by the agent ÷ memcpy, blocks, 128"].verdict, "held")
        self.assertEqual(self.targets("graph", graph(agent=(190, 200)))[same].verdict, "missed")

    def test_Targets_Graphs_InCppAndAfterAKill(self):
        def figure(metric, median, count=3, **more):
            return {metric: median, f"{metric}_least": median * 0.9, f"{metric}_most": median * 1.1,
                    "count": count, **more}
        rows = self.targets("graph", {"benchmark": "graph", "core": [
            figure("per_s", 2.5e6, key="insert", what="inserts"),
            figure("per_s", 2.5e8, key="scan_store", what="neighbours")], "reopen": [
                {**figure("seconds", 2), **figure("resident_bytes", 90), "key": "on", "what": "on",
                 "logged_bytes": 1e9, "limit_bytes": 100},
                {**figure("seconds", 9, 1), **figure("resident_bytes", 900, 1), "key": "off", "what": "off",
                 "logged_bytes": 1e9, "limit_bytes": 100}]})
        self.assertEqual({what: (row.asked, row.verdict) for what, row in rows.items()}, {
            "C++ on one CPU, inserts: M relationships/s": ("at least 2", "held"),
            "C++ on one CPU, neighbours: M relationships/s": ("at least 300", "missed"),
            "reopen after a kill, 1.0 GB logged, on: s": ("at most 3", "held"),
            "reopen after a kill, 1.0 GB logged, on: the most resident ÷ memory limit": ("at most 1.05", "held"),
            "reopen after a kill, 1.0 GB logged, off: s": ("at most 10", "not clear")})

    def test_Targets_GraphRivals_DurableTransactionsHoldByEitherRule(self):
        def figure(median):
            return {"median": median, "least": median, "most": median}
        result = {"benchmark": "graph-rivals", "rounds": [{}, {}], "figures": {
            "durable": {"ratio": figure(2.5), "of_bare": figure(0.9)}, "durable_8": {"ratio": figure(11)},
            "statements": {"ratio": figure(19)}, "bytes_small": {"pulsedb": figure(8)}}}
        self.assertEqual([row.verdict for row in self.targets("graph-rivals", result).values()],
                         ["held", "missed", "held", "held"])
        result["figures"]["durable"]["of_bare"] = figure(0.7)
        rows = self.targets("graph-rivals", result)
        what = ("durable transactions of one relationship, one writer: times the better rival (or 0.8 of a "
                "bare append)")
        self.assertEqual((rows[what].asked, rows[what].verdict), ("at least 3", "missed"))

    def test_Changes_Operators_WorseAutoIsSaid(self):
        page = self.compared("ops", ops(1.2), ops(0.9))
        self.assertIn("2 ratios are in both: 1 have become worse, 0 better", page.statement)
        self.assertEqual(page.tables[0].rows[0][0], "ops, row 0: mib_per_s, auto ÷ best split")

    def test_Changes_Graphs_LessOfP99AndCpuIsBetter(self):
        page = self.compared("graph", graph(agent=(190, 200)), graph(agent=(90, 92)))
        self.assertIn("1 better", page.statement)
        self.assertEqual(page.tables[0].rows[0][0],
                         "graph, beside compactions: p99_us, agent_other ÷ none")
        # Rates with the least and the most, as wide as they allow.
        page = self.compared("graph", graph(), graph())
        self.assertIn("0 have become worse, 0 better", page.statement)

    def test_Changes_VirtualDpu_ItsErrorIsCompared(self):
        def vdpu(slowed):
            return {"profile": {"name": "bf2"}, "dma": [{"bytes": 64, "asked_us": 8, "shared_us": 8.2}],
                    "speed": {"asked": 0.5, "plain_seconds": [1, 1], "slowed_seconds": slowed}}
        page = self.compared("vdpu", vdpu([2.0, 2.01]), vdpu([2.5, 2.6]))
        self.assertIn("2 ratios are in both: 1 have become worse", page.statement)


if __name__ == "__main__":
    unittest.main()
