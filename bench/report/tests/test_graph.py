"""The page of `pulse bench graph`."""
import unittest

from samples import EVIL, ReportTestCase
import html_page


def copies(**more):
    return {"gib_per_s": 5.0, "gib_per_s_least": 4.0, "gib_per_s_most": 6.0,
            "caller_cpu_s_per_gib": 0.2, "all_cpu_s_per_gib": 0.25, "engine": "inline", **more}


def result():
    return {"benchmark": "graph", "settings": {"tiny": False},
            "copy": {"rows": [copies(piece=1024), copies(piece=65536),
                              copies(piece=1024, direction="DRAM to tier", gib_per_s=7.0),
                              copies(piece=1024, engine="threads-1")],
                     "memcpy_gib_per_s": 9.0, "memcpy_cpu_s_per_gib": 0.1},
            "flush": [{"records": 1000, "order_s": 0.001, "encode_s": 0.002, "cpu_s_per_gib": 5.0,
                       "copies_s": {"inline": 0.0005, "sim": 0.0004}, "copies_tier_s": {"sim": 0.0003}}],
            "merge": {"rows": [copies(input="blocks, 1.0 MiB", bytes=1 << 20, share_copied=1.0,
                                      share_encoded=0.0),
                               copies(input="R-MAT", bytes=5, share_copied=0.8,
                                      share_encoded=0.2)]},
            "oltp": {"rows": [{"transaction": "2 payment", "after_updates": True, "ratio": 0.9,
                               "adjacency": {"median_s": 1e-4, "p99_s": 2e-4, "cpu_s": 3e-4},
                               "runs": {"median_s": 0.9e-4, "p99_s": 2e-4, "cpu_s": 3e-4},
                               "hybrid": {"median_s": 1.1e-4, "p99_s": 2e-4, "cpu_s": 3e-4}}]},
            "core": [{"what": "inserts", "per_s": 2.5e6, "per_s_least": 2e6, "per_s_most": 3e6,
                      "cpu_s_per_million": 0.4}],
            "reopen": [{"what": "flushing on", "seconds": 0.5, "seconds_least": 0.4, "seconds_most": 0.6,
                        "cpu_s": 0.3, "resident_bytes_most": 100 << 20, "limit_bytes": 256 << 20,
                        "logged_bytes": 1000 << 20}],
            "beside": {"rows": [{"compactions_by": "the agent on CPU 1", "p50_s": 1e-4, "p99_s": 3e-4,
                                 "transactions_per_s": 5000, "compactions_per_s": 7}],
                       "p99_agent_by_threads_same": 0.5, "p99_agent_by_thread_other": 1.01},
            "sum": {"rows": [{"threads": 2, "edges_per_s": 3e9, "speed_up": 1.9,
                              "cpu_s_per_g_edges": 0.6}]},
            "updates": [{"relationships": 10, "faster_by": 2.5, "cpu_s_per_gib": 9.0,
                         "seconds": {"adjacency": 0.001, "layer 0": 0.0004}}],
            "gtpc": [{"warehouses": 1, "variant": "published", "nodes": 7, "relationships": 9,
                      "timeouts": 1, "done": 1, "failures": 1, "dangling": 8, "load_s": 2.0,
                      "sum_s": 0.5, "sum_cpu_s": 0.4,
                      "queries": [{"query": "Q1", "rows": 15, "cpu_s": 0.4,
                                   "seconds": {"median": 0.5, "min": 0.4, "max": 0.6}},
                                  {"query": "Q2", "timeout": True}, {"query": "Q3", "error": "why"}]}],
            "paper": [{"figure": "7", "what": "threads", "says": "2", "means": "two", "value": 1.9},
                      {"figure": "3", "what": "DSA", "says": "130", "means": "no DSA here"}],
            "missing": ["Intel DSA"]}


class GraphPageTest(ReportTestCase):
    def test_Page_HasChartsTablesAndWhatIsMissing(self):
        self.put("graph.json", result())
        page = self.page("graph")
        self.assertEqual([chart.title[:8] for chart in page.charts],
                         ["Figure 3", "Figure 5", "Figure 4", "Figure 8"])
        self.assertEqual(page.charts[0].groups, ["1 KiB", "64 KiB"])
        self.assertEqual([s.name for s in page.charts[0].series], ["inline", "threads-1"])
        self.assertIsNone(page.charts[0].series[1].points[1].ours)
        self.assertEqual(page.charts[3].series[0].points[0].ours.median, 1.0)
        rows = self.table(page, "GTPC, 1 warehouses, as published").rows
        self.assertEqual(rows[0], ["Q1", "15", "500", "400", "600", "400"])
        self.assertEqual([row[2] for row in rows[1:3]], ["timeout", "failed"])
        self.assertEqual([r[3] for r in self.table(page, "The paper's text").rows], ["1.90", "–"])
        self.assertEqual(self.table(page, "Figure 5").rows[1][4:], ["80.0", "20.0"])
        self.assertEqual([row[0] + row[4] for row in self.table(page, "Figure 6").rows],
                         ["2 payment, after updates: adjacency list (layer 0)1.00",
                          "2 payment, after updates: sorted runs, a tenth in layer 00.90",
                          "2 payment, after updates: the same, half of the runs in the tier (stand-in)1.10"])
        copied = self.table(page, "Figure 3")
        self.assertEqual(copied.header[1:3], ["DRAM to DRAM", "DRAM to tier"])
        self.assertEqual(copied.rows[0][:3], ["1 KiB, inline", "5.00", "7.00"])
        self.assertEqual(self.table(page, "Figure 4").header[2:5], ["inline", "sim", "sim to the tier"])
        self.assertEqual(self.table(page, "GTPC, all analytical").rows,
                         [["1 warehouses, as published", "1", "1", "1", "8", "2.00", "500", "400"]])
        self.assertEqual(self.table(page, "In C++").rows[0][:3], ["inserts", "2.50", "2.00"])
        self.assertEqual(self.table(page, "Opening after").rows[0][6:], ["100", "256"])
        self.assertEqual(self.table(page, "GTPC's transactions on one CPU").rows,
                         [["the agent on CPU 1", "100", "300", "5,000", "7.00"]])
        self.assertAnyHas("Not measured: Intel DSA", page.notes)
        self.assertAnyHas("memcpy", page.notes)

    def test_Page_OfOnePart_HasOnlyThat(self):
        self.put("graph.json", {"benchmark": "graph", "sum": result()["sum"]})
        page = self.page("graph")
        self.assertEqual(page.charts, [])
        self.assertEqual([table.caption[:8] for table in page.tables], ["Figure 7"])

    def test_RivalsPage_HasRatiosAndWhatWasAsked(self):
        def figure(median):
            return {"median": median, "least": median, "most": median}
        self.put("rivals.json", {"benchmark": "graph-rivals", "rounds": [{"pulsedb": {}, "kuzu": {}}], "figures": {
            "durable": {"unit": "a second", "asked": ">= 3", "pulsedb": figure(6), "kuzu": figure(2),
                        "ratio": figure(3), "of_bare": figure(0.9)},
            "bare": {"unit": "a second", "asked": "", "pulsedb": figure(7)}}})
        rows = self.page("rivals").tables[0].rows
        self.assertEqual(rows[0][0], "durable, a second")
        self.assertEqual([cell.split(" ")[0] for cell in rows[0][3:5]], ["3.00", "0.90"])
        self.assertEqual(rows[1][2:], ["–", "–", "–", "–"])

    def test_Page_OfDamagedResult_IsMade(self):
        for damaged in ({"benchmark": "graph"}, {"benchmark": "graph", "copy": 3, "flush": [None, 7]},
                        {"benchmark": "graph",
                         "merge": {"rows": [{"input": EVIL, "bytes": "x"}]},
                         "gtpc": [{"queries": [{"seconds": 3}]}], "core": [3, {"per_s": "x"}], "reopen": 4,
                         "settings": [], "missing": [4]}):
            self.put("graph.json", damaged)
            self.page("graph")

    def test_Page_OfHostileNames_IsEscaped(self):
        hostile = result()
        hostile["merge"]["rows"][0]["engine"] = EVIL
        hostile["missing"] = [EVIL]
        self.put("graph.json", hostile)
        self.assertNotIn(EVIL, html_page.render(self.report()))


if __name__ == "__main__":
    unittest.main()
