"""The page of `pulse bench ops`."""
import unittest

from samples import EVIL, ReportTestCase
import html_page


def row(card, setting, ratio):
    return {"title": f"{card}, regex, host pulse, {setting}", "card": card, "operation": "regex",
            "host": "pulse", "setting": setting, "replayed": card != "none", "best_percent": 50,
            "splits": [{"percent": p, "mib_per_s": 100.0 + p, "placement": name}
                       for p, name in ((0, "fCPU"), (50, "cREG"), (100, "rDPU"))],
            "auto_mib_per_s": 150.0, "auto_by_best": ratio, "auto_by_best_least": ratio - 0.1,
            "auto_by_best_most": ratio + 0.1, "loss_chunks": 0.5, "host_cpu_saved": 0.8,
            "of_replay_limit": 0.25}


def result():
    return {"benchmark": "ops", "settings": {"tiny": False},
            "offload": [row("none", "static", 1.01), row("bf2", "static", 0.9)],
            "cards": [{"table": table, "what": what, "card": card, "profile": profile, "paper": paper}
                      for card in ("bf2", "bf3")
                      for table, what, profile, paper in ((2, "CPU", f"{card} cores", "A72"),
                                                          (2, "Power", "", "75 W"),
                                                          (3, "regex", "yes, 1.34 GB/s", "partial"))],
            "changes": [{"title": f"none: {what}", "host_mib_per_s": 100.0, "agent_mib_per_s": 50.0,
                         "best_percent": 30, "best_mib_per_s": 120.0, "auto_mib_per_s": 140.0,
                         "auto_by_best": ratio, "auto_by_best_least": ratio, "auto_by_best_most": ratio}
                        for what, ratio in (("slows", 1.2), ("sizes", 1.0))],
            "paper": [{"figure": "6", "what": "init", "says": "62 %", "value": 61.5},
                      {"figure": "14a", "what": "other", "says": "25"}],
            "codecs": [{"operation": "compress-deflate", "file": "xml", "by": "zlib -1",
                        "mib_per_s": 80.0},
                       {"operation": "compress-deflate", "file": "xml", "by": "bf2 ASIC",
                        "mib_per_s": 900.0, "replayed": True, "placement": "cDPU"}],
            "tasks": [{"card": "bf2", "operation": "compress-deflate", "init_share": 0.62, "memory_share": 0.03,
                       "asic_share": 0.02, "end_share": 0.35, "queue_share": 0.01}],
            "dma": [{"by": by, "direction": "host to agent", "buffer": 65536, "batch": 4,
                     "cores": cores, "gib_per_s": 10.0 + cores}
                    for by, cores in (("shared", 1), ("shared", 2), ("bf2", 4))],
            "routing": [{"beside": "memory-bound", "gbit_per_s": 7.5, "p50_us": 130.0, "p99_us": 260.0,
                         **{f"{name}_of_alone": {"median": 0.75, "min": 0.7, "max": 0.8}
                            for name in ("gbit_per_s", "p50_us", "p99_us")}}],
            "regex": [{"query": "Q1", "buffer": 4096, "by": "pulse", "mib_per_s": 3000.0},
                      {"query": "Q1", "buffer": 4096, "by": "re2", "mib_per_s": 50.0},
                      *({"query": "Q1", "buffer": 16384, "by": by, "tasks": tasks, "replayed": by == "bf2",
                         "placement": name, "mib_per_s": 1000.0 + tasks}
                        for by, name in (("pulse", "fCPU"), ("bf2", "rDPU")) for tasks in (1, 4))]}


class OpsPageTest(ReportTestCase):
    def test_Page_HasChartsTablesAndThePapersFigures(self):
        self.put("ops.json", result())
        page = self.page("ops")
        self.assertIn("no card is here", page.statement)
        self.assertEqual([chart.title for chart in page.charts],
                         [f"Figure 14: regex, {card} (fCPU at 0 %, cREG between, rDPU at 100 %)"
                          for card in ("none", "bf2")])
        self.assertEqual(page.charts[0].groups, ["0", "50", "100", "auto"])
        self.assertEqual(page.charts[0].series[0].points[3].ours.median, 150.0)
        rows = self.table(page, "auto against").rows
        self.assertEqual(rows[1][4:7], ["50", "150", "0.90"])
        self.assertEqual([r[-1] for r in rows], ["–", "25"])
        cards = self.table(page, "Table 2")
        self.assertEqual(cards.header, ["", "bf2, profile", "bf2, the paper", "bf3, profile",
                                        "bf3, the paper"])
        self.assertEqual(cards.rows[1], ["Power", "–", "75 W", "–", "75 W"])
        self.assertEqual(self.table(page, "Table 3").rows[0][1:3], ["yes, 1.34 GB/s", "partial"])
        self.assertEqual(self.table(page, "speeds or sizes change").rows[0][3:7],
                         ["120", "30", "140", "1.20"])
        self.assertAnyHas("not above the best split in 1 of 2 rows where something changes: none: sizes",
                          page.notes)
        rows = self.table(page, "The paper's text").rows
        self.assertEqual([r[2:] for r in rows], [["62 %", "61.5"], ["25", "–"]])
        self.assertEqual(self.table(page, "compress-deflate").header[1:],
                         ["zlib -1", "bf2 ASIC (cDPU, replayed)"])
        self.assertEqual(self.table(page, "Figure 13a").rows[0][0], "Q1, 4096 B")
        batches = self.table(page, "Figure 13b")
        self.assertEqual(batches.header, ["", "pulse (fCPU), 1", "pulse (fCPU), 4",
                                          "bf2 (rDPU, replayed), 1", "bf2 (rDPU, replayed), 4"])
        self.assertEqual(batches.rows, [["Q1, 16384 B", "1,001", "1,004", "1,001", "1,004"]])
        self.assertEqual(self.table(page, "Figure 6").rows[0][1:3], ["62.0", "3.00"])
        moved = self.table(page, "Figure 8")
        self.assertEqual(moved.header, ["", "shared, 1 core", "shared, 2 cores", "bf2, 4 cores"])
        self.assertEqual(moved.rows, [["64 KiB, 4", "11.0", "12.0", "14.0"]])
        self.assertEqual(self.table(page, "Figure 15").rows[0][:3],
                         ["memory-bound", "7.50", "0.75 (0.70 – 0.80)"])
        self.assertAnyHas("below 0.97 of the best split in 1 of 2 rows: bf2", page.notes)

    def test_Page_NothingMissed_SaysSo(self):
        good = result()
        good["offload"] = [row("none", "static", 1.01)]
        self.put("ops.json", good)
        self.assertFalse(any("below" in note for note in self.page("ops").notes))

    def test_Page_OfDamagedResult_IsMade(self):
        for damaged in ({"benchmark": "ops"}, {"benchmark": "ops", "offload": 3, "paper": [None, 7]},
                        {"benchmark": "ops", "offload": [{"splits": [{"percent": "x"}]}],
                         "regex": [{"query": EVIL}], "settings": [], "dma": [{"by": EVIL}, 3],
                         "routing": [{"beside": EVIL, "p50_us_of_alone": 7}]}):
            self.put("ops.json", damaged)
            self.page("ops")

    def test_Page_EvilNames_AreEscaped(self):
        evil = result()
        evil["offload"][0]["title"] = evil["codecs"][0]["file"] = EVIL
        self.put("ops.json", evil)
        self.assertNotIn(EVIL, html_page.render(self.report()))


if __name__ == "__main__":
    unittest.main()
