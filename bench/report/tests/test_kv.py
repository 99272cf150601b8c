"""The page of `pulse bench kv --part model`."""
import unittest

from samples import EVIL, ReportTestCase, part
import charts
import html_page


def row(design, rate, **more):
    return {"card": "bf2", "inputs": "paper", "workload": "B-uniform", "design": design,
            "per_second": rate * 1e6, **more}


def model():
    peaks = [row("lat", 30, latency_us=60, host_cores=8, host_busy=3, transfer_us=8.0),
             row("dpu", 20, latency_us=50, host_cores=0, host_busy=0, transfer_us=0)]
    return {
        "costs": {"B-uniform": {"cpu": {"receive_ns": 2.5}}, "transfer_ns": 50},
        "parameters": [["burst", "64", "dpu-kv 6.1"]],
        "validation": [{"workload": "B-uniform", "what": "lat, M/s", "measured": 10.0, "model": 11.0,
                        "error_percent": 10.0}],
        "peaks": peaks,
        "latency": [row(design, rate * load, load=load, p50_us=5 / (1 - load))
                    for design, rate in (("lat", 30), ("dpu", 20)) for load in (0.5, 0.9)],
        "by_cores": [row("lat", 4 * cores, cores=cores) for cores in range(1, 9)],
        "paper": [
            {"card": "bf2", "inputs": "paper", "what": "lat / dpu", "where": "6.2", "of": "lat",
             "over": "dpu", "kind": "mean", "metric": "rate", "low": 1.2, "high": 1.2, "ours_low": 1.5,
             "ours_high": 1.5, "ratio_low": 1.25, "ratio_high": 1.25, "verdict": "missed",
             "input": False},
            {"card": "bf2", "inputs": "paper", "what": "cpu / dpu", "where": "3.2", "of": "cpu",
             "over": "dpu", "kind": "range", "metric": "rate", "low": 1.7, "high": 1.8,
             "ours_low": 3.0, "ours_high": 3.0, "ratio_low": 1.7, "ratio_high": 1.7,
             "verdict": "missed", "input": True}],
        "orderings": [{"card": "bf2", "inputs": "paper", "relation": "lat > dpu", "holds": 1, "of": 1,
                       "ratio_low": 1.5, "ratio_high": 1.5}]}


class KvModelPageTest(ReportTestCase):
    def put_model(self, found):
        self.put("kv.json", {"benchmark": "kv", "model": found, "settings": {"tiny": False}})

    def test_Model_Page_HasThePapersFiguresBesideOurs(self):
        self.put_model(model())
        page = self.page("kv")
        self.assertIn("No input is fitted", page.statement)
        self.assertEqual([chart.title.split(":")[0] for chart in page.charts],
                         ["Figure 11", "Figure 11", "Figure 12(a) to (c)", "Figure 12(d)"])
        point = page.charts[0].series[0].points[0]
        self.assertEqual((point.ours.median, point.paper), (1.5, 1.2))
        # A latency has no figure of the paper here.
        self.assertEqual(page.charts[1].series[0].points[0].paper, None)
        self.assertEqual(len(page.charts[3].series[0].points), 8)
        rows = self.table(page, "The paper's text").rows
        self.assertEqual([(r[0], r[5]) for r in rows],
                         [("bf2: lat / dpu", "missed"), ("bf2: cpu / dpu", "an input")])
        self.assertEqual(self.table(page, "two CPUs").rows[0][3], "+10")
        self.assertEqual(self.table(page, "Measured costs").rows[0][:2], ["B-uniform", "2.50"])

    def test_Model_SharesOfStages_AreBesideThePapersTable1(self):
        found = model()
        found["costs"]["A-uniform"] = {"cpu": {"receive_ns": 10, "parse_ns": 20, "respond_ns": 40,
                                               "process_ns": 30}}
        self.put_model(found)
        rows = {row[0]: row[1:] for row in self.table(self.page("kv"), "Table 1").rows}
        self.assertEqual(rows["YCSB A: receive"], ["18.2", "25.4", "10.0"])
        self.assertEqual(rows["YCSB A: get, set"], ["19.5", "13.4", "30.0"])
        self.assertNotIn("YCSB C: parse", rows)  # it was not measured

    def test_Model_Misses_AreListedWithoutInputs(self):
        self.put_model(model())
        self.assertAnyHas("Misses, inputs paper: 1 of 1 values of the paper: bf2: lat / dpu.",
                          self.page("kv").notes)
        self.assertAnyHas("gives no points of the curves of Figure 12", self.page("kv").notes)

    def test_Model_HostileOrHalf_StillMakesAPage(self):
        found = model()
        found["peaks"] += [None, row(EVIL, 1), {"card": 7}]
        found["paper"].append({"card": EVIL})
        found["parameters"].append([1, 2])
        found["latency"].append(row(EVIL, 1))
        self.put_model(found)
        html = html_page.render(self.report())
        self.assertNotIn("<script>alert", html)
        self.put_model({"peaks": []})
        self.assertEqual(self.page("kv").charts, [])

    def test_Model_Charts_AreDrawnInLightAndDark(self):
        self.put_model(model())
        for chart in self.page("kv").charts:
            drawn = charts.draw(chart)
            self.assertIn("<svg", charts.standalone(drawn, charts.LIGHT, charts.DARK, chart.title))

    def test_Kv_WithoutModel_IsListedLikeOthers(self):
        self.put("kv.json", {"benchmark": "kv", "settings": {},
                             "parts": {"engine-get": part("reads", {"batch": (1e7, 1)})}})
        self.assertEqual(self.page("kv").charts[0].title, "Throughput")


if __name__ == "__main__":
    unittest.main()
