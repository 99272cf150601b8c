"""The pages of `pulse bench kv --part designs`, `--part queue` and `--part redis`."""
import unittest

from samples import EVIL, ReportTestCase
import charts
import html_page
import kv_designs


def design(name, pair, rate, p50):
    figures = {"variant": name, "pair": pair, "ops_per_s": rate * 1e6, "host_ns": 40.0,
               "full_p50_us_128": 6.0, "full_p50_us_256": 12.0}
    for load in kv_designs.LOADS:
        figures.update({f"per_s_{load}": rate * load * 1e4, f"p50_us_{load}": p50 + load / 10,
                        f"p99_us_{load}": 90.0, f"batch_{load}": 7.5})
    return figures


def designs(profile="bf2"):
    runs = [design(name, pair, rate + pair / 10, p50) for name, rate, p50 in (
        ("cpu", 20, 1), ("dpu", 10, 2), ("lat", 15, 12)) for pair in (1, 2)]
    return {"benchmark": "kv", "settings": {"tiny": False, "profile": profile, "engine": "mica"},
            "parts": {f"designs-{workload}": {"runs": runs} for workload in ("A-zipf", "C-uniform")}}


def queue():
    batches = [{"variant": "batch-64", "pair": 1, "ops_per_s": 4e7, "round_us": 3.0,
                "request_bytes": 32.1, "response_bytes": 16.1, "packet_request_bytes": 66,
                "packet_response_bytes": 66, "saved_request_percent": 51.4,
                "saved_response_percent": 75.6}]
    moves = [{"variant": name, "pair": 1, **{f"ns_{size}": 100 + size for size in kv_designs.SIZES}}
             for _, names in kv_designs.MOVERS for name in names]
    return {"benchmark": "kv", "settings": {"tiny": True},
            "parts": {"queue-get": {"runs": batches}, "queue-write": {"runs": moves}}}


def redis(pair):
    server = {"variant": "redis-server", "pair": pair, "ops_per_s": 2e5, "within_50us_per_s": 1e5,
              "host_ns": 5000, "kernel_percent": 80}
    for count in kv_designs.CONNECTIONS:
        server.update({f"per_s_c{count}": 1e5 + count, f"p50_us_c{count}": 20 + count})
    return [server, {**design("mica-packets", pair, 14, 1), "within_50us_per_s": 13e6}]


class KvDesignsPageTest(ReportTestCase):
    def test_Designs_Page_HasThePapersFiguresBesideOurs(self):
        self.put("kv-designs.json", designs())
        page = self.page("kv-designs")
        self.assertIn("one core of the host", page.statement)
        self.assertIn("as slow as a core of bf2", page.statement)
        self.assertIn("Engine: mica", page.statement)
        self.assertEqual([chart.title.split(":")[0] for chart in page.charts],
                         ["Figure 12(a) to (c)"] * 2 + ["Figure 11", "Figure 5(a), (b)"])
        peaks = {group: point for group, point in zip(page.charts[2].groups,
                                                      page.charts[2].series[0].points)}
        self.assertEqual(peaks["lat"].paper, 1.2)
        self.assertAlmostEqual(peaks["lat"].ours.median, 15.15 / 10.15, places=2)
        point = page.charts[0].series[0].points[0]
        self.assertAlmostEqual(point.ours.median, 3.0)
        self.assertAlmostEqual(point.across.median, 20.15 * 0.2)
        rows = self.table(page, "The paper's text").rows
        self.assertEqual([(row[0], row[1]) for row in rows],
                         [("cpu / dpu", "1.73 – 1.76"), ("lat / dpu", "1.2")])
        self.assertAnyHas("A replay has no NIC", page.notes)

    def test_Designs_WithoutProfile_ClaimNoCard(self):
        self.put("kv.json", designs(profile=""))
        page = self.page("kv")
        self.assertIn("Both cores are as fast", page.statement)
        self.assertTrue(page.charts[2].title.startswith("As Figure 11"))
        self.assertEqual([p.paper for p in page.charts[2].series[0].points], [None, None])

    def test_Queue_Page_HasFigures8And9(self):
        self.put("kv.json", queue())
        page = self.page("kv")
        self.assertIn("mean nothing", page.statement)
        saved = page.charts[0]
        self.assertTrue(saved.title.startswith("Figure 8(d)"))
        self.assertEqual([point.paper for point in saved.series[0].points],
                         [63.67, 83.3, 66.67, 81.81])
        self.assertEqual(saved.series[0].points[0].ours.median, 51.4)
        self.assertIsNone(saved.series[0].points[2].ours)  # no SET was measured
        self.assertEqual([chart.title for chart in page.charts[1:]], [
            f"Figure 9: a write, {title}" for title, _ in kv_designs.MOVERS])
        self.assertEqual(page.charts[1].series[0].points[1].ours.median, 164)
        self.assertEqual(self.table(page, "A write by size").rows[0][1], "102")

    def test_Redis_Page_HasFigure2AndTheRatio(self):
        self.put("kv.json", {"benchmark": "kv", "settings": {"tiny": False}, "parts": {
            "redis-C-uniform": {"runs": redis(1) + redis(2)}}})
        page = self.page("kv")
        self.assertEqual(page.figures, "DPU-KV Fig. 2")
        server, store = page.charts[0].series
        self.assertEqual((server.name, store.name), ("redis-server", "mica-packets"))
        self.assertNotEqual(server.colour, store.colour)
        self.assertEqual([point.ours.median for point in server.points],
                         [20 + count for count in kv_designs.CONNECTIONS])
        self.assertAlmostEqual(server.points[-1].across.median, 0.100256)
        self.assertAlmostEqual(store.points[0].across.median, 2.8)
        rows = self.table(page, "Thousand requests").rows
        self.assertEqual([row[:5] for row in rows], [
            ["C-uniform", "redis-server", "200", "100", "1.00"],
            ["C-uniform", "mica-packets", "14,000", "13,000", "130"]])

    def test_HostileOrHalf_StillMakesAPage(self):
        for found in (designs(), queue(), {"benchmark": "kv", "settings": {}, "parts": {
                "redis-A-zipf": {"runs": redis(1)}}}):
            for part in found["parts"].values():
                part["runs"] += [None, {"variant": EVIL}, {"variant": "batch-64", "pair": "x"}]
            found["parts"]["designs-" + EVIL] = {"runs": [{"variant": EVIL, "ops_per_s": 1e400}]}
            found["parts"]["queue-none"] = 7
            found["settings"]["profile"] = EVIL
            self.put("kv.json", found)
            self.assertNotIn("<script>alert", html_page.render(self.report()))

    def test_Charts_AreDrawnInLightAndDark(self):
        for found in (designs(), queue(), {"benchmark": "kv", "settings": {}, "parts": {
                "redis-A-zipf": {"runs": redis(1)}}}):
            self.put("kv.json", found)
            page = self.page("kv")
            self.assertTrue(page.charts)
            for chart in page.charts:
                drawn = charts.draw(chart)
                self.assertIn("<svg", charts.standalone(drawn, charts.LIGHT, charts.DARK, chart.title))
                self.assertIn("<svg", charts.standalone(drawn, charts.DARK))


if __name__ == "__main__":
    unittest.main()
