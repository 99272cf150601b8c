"""The report as a whole: pages, warnings, targets; HTML and Markdown; files that are none."""
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import unittest
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

from samples import (EVIL, PULSE, STOCK, ReportTestCase, aim, blocks, paper_result, part, ring, rows,
                     run, soak)
import charts
import html_page
import markdown_page
import report as program
from paper_pages import command_for
from results import ReportError, read_json

BEGIN, END = markdown_page.BEGIN, markdown_page.END


class PagesTest(ReportTestCase):
    def test_Experiment_ThatRan_HasChartsTablesAndThePaper(self):
        self.put_catalogue("fillrandom", targets=[aim()])
        self.put("fillrandom.json", paper_result("fillrandom", "128 B", "1024 B"))
        report, page = self.report(), self.page("fillrandom")
        for text in ("Scale 0.1 of the paper's 40 GB", "2 pairs after 1 warm-up",
                     "host on CPU 0, agent on CPU 1", "Measured by PulseDB 1.2 (aaa), 2020-01-02"):
            self.assertIn(text, page.statement)
        # Compactions were not measured, so there is no chart of them.
        self.assertEqual([chart.title for chart in page.charts],
                         ["Throughput", "Throughput against stock RocksDB"])
        self.assertEqual(page.charts[0].series[1].points[0].ours.median, 185)
        self.assertEqual(page.charts[1].band.high, 1.82)
        self.assertEqual(page.charts[1].series[0].points[1].ours.median, 1.75)
        self.assertNotIn("host CPU, s", page.tables[0].header)
        self.assertEqual(len(page.tables[0].rows), 4)
        self.assertIn(["throughput", "1.22 – 1.82", "1.75", "Fig. 10"], page.tables[1].rows)
        self.assertIn("0 held, 0 missed, 1 not clear", report.targets_summary)
        (row,) = report.targets
        self.assertEqual((row.asked, row.got.median, row.verdict, row.why, row.source, row.pairs),
                         ("at least 1.6", 1.75, "not clear", "the pairs differ", "fillrandom", 2))

    def test_Experiment_NotRun_IsNamedWithItsCommand(self):
        self.put_catalogue("tails", "ycsb", "queue", "more", optional=("more",))
        self.put("tails.json", paper_result("tails", "1024 B"))
        self.put("queue.json", paper_result("tails", "1024 B"))
        report = self.report()
        pages = {page.name: page for page in report.pages}
        self.assertNotIn("more", pages)  # it needs to be asked for
        self.assertTrue(pages["tails"].done)
        self.assertFalse(pages["ycsb"].done)
        self.assertEqual(pages["ycsb"].command, f"pulse bench paper --out {self.dir} --scale 0.1 "
                         "--threads 3 --pairs 2 --only ycsb")
        self.assertIn("is no result of queue", pages["queue"].statement)
        self.assertRegex(pages["queue"].command, "--only queue --redo$")
        self.assertAnyHas("1 of 6 experiments have run", report.warnings)
        html = html_page.render(report)
        self.assertRegex(html, "<code>pulse bench paper --out [^<]* --only ycsb</code>")
        self.assertIn('class="absent" href="#ycsb"', html)

    def test_Highlights_EachPaperWithResults_OneChartAndOneSentence(self):
        self.put_catalogue("fillrandom")
        self.assertEqual(self.report().highlights, [])
        self.put("fillrandom.json", paper_result("fillrandom", "128 B", "1024 B"))
        (pulsedb,) = self.report().highlights
        self.assertIn("PulseDB makes 1.75 times the random writes of stock RocksDB on the host's CPU "
                      "(1.50 to 2.00 over 2 pairs)", pulsedb.sentence)
        self.assertEqual(pulsedb.chart.groups, [STOCK, PULSE])
        self.put("blocks.json", blocks())
        dds = self.report().highlights[1]
        self.assertIn("a read costs the host 0.002 µs of CPU, against 5.70 µs by os-io_uring",
                      dds.sentence)
        html = html_page.render(self.report())
        self.assertLess(html.index(charts.escape(dds.sentence)), html.index("<nav"))
        self.assertLess(html.index("<nav"), html.index('id="targets"'))

    def test_Highlights_OnlyCompactions_AreThePapersFigure(self):
        self.put("compaction.json", {"benchmark": "compaction", "value_sizes": [
            {"value_bytes": 1024, "runs": [run(STOCK, 1, 0, wall_s=20), run(PULSE, 1, 0, wall_s=10)]}]})
        (pulsedb,) = self.report().highlights
        self.assertIn("takes 2.00 times as long as PulseDB for one compaction (1 pair)",
                      pulsedb.sentence)

    def test_Warnings_TinyMachinesVersionsSettings_AreSaid(self):
        self.put_catalogue("tails", "queue")
        tiny, other = paper_result("tails", "1024 B"), paper_result("queue", "1024 B")
        tiny["settings"]["tiny"] = True
        other["machine"]["cpu"], other["revision"] = "slow", "bbb-dirty"
        other["settings"]["threads"] = 1
        self.put("tails.json", tiny)
        self.put("queue.json", other)
        self.put("blocks.json", blocks())
        warnings = self.report().warnings
        self.assertAnyHas("figures mean nothing", warnings)
        self.assertAnyHas("more than one machine: quick, 2 CPUs", warnings)
        self.assertAnyHas("version of the program: 1.2 (aaa) (tails, remote-blocks); 1.2 (bbb with "
                          "local changes) (queue)", warnings)
        # The settings of blocks are its own.
        self.assertIn("The experiments differ in threads: 3 (tails); 1 (queue).", warnings)
        self.assertNoneHas("differ in pairs", warnings)
        self.assertIn("A tiny run", self.page("tails").statement)

    def test_Command_Settings_AreTheFlagsThatWereUsed(self):
        for settings, flags in (
                ({}, ""), ({"value_sizes": [128, 1024]}, " --value-sizes 128,1024"),
                ({"scale": 0.025, "threads": 10, "pairs": 5, "host_cpus": "0", "seed": 1}, ""),
                ({"scale": 0.1, "threads": 1, "pairs": 3, "memtable_bytes": 8 << 20,
                  "uri_options": "queue=8M&io=direct", "agent_cpus": "2"},
                 " --scale 0.1 --threads 1 --pairs 3 --memtable 8388608 --agent-cpus '2' --uri "
                 "'queue=8M&io=direct'"),
                ({"tiny": True, "pairs": 1}, " --tiny"),
                ({"quick": True, "scale": 0.005, "threads": 1, "pairs": 2,
                  "memtable_bytes": 4 << 20}, " --quick")):
            self.assertEqual(command_for("out", settings), f"pulse bench paper --out out{flags}")

    def test_Needs_WhatCannotBeShownHere_SaysWhatItWouldNeed(self):
        self.put_catalogue("tails", targets=[
            aim("tails", value=19, metric="stall_share", of=STOCK, over=PULSE, points=True)])
        result = paper_result("tails", "1024 B")
        for one in result["rows"][0]["runs"]:
            one["stall_share"] = 0.001
        self.put("tails.json", result)
        report = self.report()
        self.assertEqual((report.targets[0].verdict, report.targets[0].why),
                         ("not shown here", "stock did not stall"))
        self.assertAnyHas("It would need a slower disk", report.needs)
        self.assertAnyHas("stalled for 0.1 % of the run here", report.needs)
        self.assertIn("<li>stall_share of stock-default: not shown", html_page.render(report))

    def test_Notes_PlacementsThatWereNone_AreMarked(self):
        self.put_catalogue("dcomp-bf2")
        result = paper_result("dcomp-bf2", "1024 B")
        for one in result["rows"][0]["runs"]:
            if one["variant"] == STOCK:
                one.update(variant="dcomp", whole_compactions=0)
        self.put("dcomp-bf2.json", result)
        self.assertAnyHas("1024 B, dcomp: not measured: no compaction ran whole in 2 of 2 runs",
                          self.page("dcomp-bf2").notes)

    def test_Notes_WhatDiffersFromOtherRuns_IsSaid(self):
        self.put_catalogue("tails")
        result = paper_result("tails", "1024 B")
        result["settings"]["environment_options"] = "engine=threads"
        for cache, said in (("drop_caches", False), ("fadvise", True)):
            result["page_cache"] = cache
            self.put("tails.json", result)
            notes = self.page("tails").notes
            self.assertEqual(any("file by file" in note for note in notes), said)
            self.assertAnyHas("PULSE_OPTIONS was set and held for PulseDB: engine=threads.", notes)

    def test_Notes_PapersOrder_HoldsOnlyInEveryPair(self):
        self.put_catalogue("dcomp-bf2")
        result = paper_result("dcomp-bf2", "1024 B")
        for dcomp, words in ((120, "not clear"), (90, "missed"), (140, "held")):
            result["rows"] = rows("1024 B")
            result["rows"][0]["runs"] += [run("dcomp", 1, dcomp), run("dcomp", 2, min(dcomp, 130)
                                                                      if words == "held" else 105)]
            self.put("dcomp-bf2.json", result)
            self.assertAnyHas(f"PulseDB before DComp before stock: {words} (",
                              self.page("dcomp-bf2").notes)

    def test_AnyRows_ForAnyExperiment_MakeAReport(self):
        names = ("fillrandom", "overwrite", "tails", "ycsb", "ycsb-bf2", "ablation", "engines",
                 "queue", "footprint", "dcomp-bf2", "shift", "emulation", "novel")
        odd = ({"rows": "x", "settings": 3},
               {"rows": [1, None, {"runs": [1, 2]}], "machine": "none",
                "settings": {"points": [3], "scale": "big"}})
        self.put_catalogue(*names, targets=[aim(name) for name in names])
        for labels in (("A",), ("A", "B")):
            for name in names:
                self.put(f"{name}.json", paper_result(name, *labels))
            html = html_page.render(self.report())
            self.assertEqual(html.count("No result"), 0)
        for fields in odd:
            for name in names:
                self.put(f"{name}.json", {"experiment": name, "benchmark": "paper", **fields})
            report = self.report()
            self.assertEqual([page.charts for page in report.pages if page.done], [[]] * len(names))
            self.assertIn("</html>", html_page.render(report))


class RemoteTest(ReportTestCase):
    def setUp(self):
        super().setUp()
        self.put("blocks.json", blocks())

    def test_Blocks_EveryPart_HasItsTable(self):
        page = self.page("remote-blocks")
        for text in ("requests of 1,024 B, 4 in a message", "512 MiB",
                     "2 pairs after 1 warm-up; host on CPU 0, agent on CPU 1"):
            self.assertIn(text, page.statement)
        reads = self.table(page, "Reads, as fast as they go")
        self.assertEqual(reads.header, ["", "a second", "p50, µs", "p99, µs", "host CPU, µs each",
                                        "agent CPU, µs each", "host CPUs in use",
                                        "agent CPUs in use"])
        self.assertEqual(reads.rows[0][:2], ["os-io_uring", "82,000 (80,000 – 84,000)"])
        self.assertEqual(reads.rows[2][4], "0.002")
        self.assertEqual(reads.rows[0][6], "0.47 (0.46 – 0.48)")  # 5.7 µs, 82,000 times a second
        self.assertIn("900", self.table(page, "Writes, as fast as they go").rows[0])
        self.table(page, "a new part")

    def test_Blocks_HostCpu_StandsAgainstThroughput(self):
        chart = self.page("remote-blocks").charts[0]
        self.assertEqual((chart.kind, len(chart.series)), ("against", 3))
        self.assertEqual(chart.series[0].points[0].across.median, 82000)
        self.assertAlmostEqual(chart.series[0].points[0].ours.median, 0.4674)

    def test_Blocks_Ratios_AreInTheTableAndAmongTheTargets(self):
        report = self.report()
        ratios = self.table(self.page("remote-blocks"), "Compared over pairs")
        self.assertEqual(ratios.rows, [
            ["reads/s, offloaded / os-io_uring", "at least 1.8", "0.93 (0.92 – 0.94)", "missed"],
            ["reads/s, library / os-threads", "–", "1.20", "–"]])
        (row,) = report.targets
        self.assertEqual((row.what, row.verdict, row.source, row.pairs),
                         ("reads/s, offloaded / os-io_uring", "missed", "remote-blocks", 2))
        self.assertIn("0 held, 1 missed", report.targets_summary)
        self.assertIn('class="missed">missed', html_page.render(report))

    def test_Blocks_Paper_StandsBesideOursWithItsPlace(self):
        page = self.page("remote-blocks")
        paper = self.table(page, "The DDS paper's figures beside ours").rows
        self.assertIn(["reads/s, offloaded ÷ OS (730 by 390)", "1.87", "0.93",
                       "section 8.2, Fig. 13a"], paper)
        self.assertIn(["reads/s, without a copy ÷ copying (730 by 520)", "1.40", "not measured",
                       "section 8.5, Fig. 20"], paper)
        self.assertAnyHas("no DPU", page.notes)

    def test_Blocks_Limit_IsTheBestsAndNamesWhoIsNear(self):
        notes = self.page("remote-blocks").notes
        (reads,) = [note for note in notes if "reads: nobody got past" in note]
        self.assertIn("82,000 a second (os-io_uring)", reads)
        self.assertIn("os-io_uring 82,000 for 5.70 µs; offloaded 75,850 for 0.002 µs", reads)
        self.assertNotIn("forwarded", reads)
        # The best alone shares nothing.
        self.assertIn("Limit of this machine, writes: nobody got past 123,000 a second (library).",
                      notes)

    def test_DirectorAndServe_HaveTheirOwn(self):
        director = {name: {"runs": [{"variant": variant, "pair": pair, **figures}
                                    for variant in ("forward", "splice")
                                    for pair in (1, 2)]} for name, figures in (
            ("stream", {"gbit_per_s": 6, "gbit_per_cpu_s": 12.5}),
            ("latency", {"p50_us": 20, "p99_us": 30, "messages_per_s": 1000}))}
        self.put("director.json", {"benchmark": "director", "parts": director})
        self.put("serve.json", {"benchmark": "serve", "parts": {"get": part("reads", {
            "off": (1000, 3), "forwarded": (1000, 3), "on": (1000, 0)})}})
        page = self.page("remote-director")
        row = next(r for r in self.table(page, "DDS").rows if "spliced" in r[0])
        self.assertEqual(row[1:], ["6.40", "12.5", "section 8.5"])
        self.assertEqual([chart.reference for chart in page.charts], [None, 6.4])
        page = self.page("remote-serve")
        row = next(r for r in self.table(page, "DDS").rows if "with DDS ÷ without" in r[0])
        self.assertEqual(row[1:], ["2.85", "1.00", "section 9.2, Fig. 22"])
        self.assertEqual(len(self.table(page, "GET of what").rows), 3)

    def test_AnythingAsAResult_MakesAReport(self):
        for odd in ({"parts": {"reads": 3}}, {"parts": {"reads": {"runs": "x"}}},
                    {"parts": {"": {"runs": [1, None, []]}}, "ratios": 3},
                    {"parts": {"b": {"runs": [{"variant": "on", "ops_per_s": "x"}]}},
                     "ratios": [1, {"ratio": 2}, {"ratio": "r", "median": "x"}], "settings": 1}):
            for benchmark in ("blocks", "serve", "director"):
                self.put(f"{benchmark}.json", {"benchmark": benchmark, **odd})
            report = self.report()
            self.assertEqual([page.charts for page in report.pages], [[], [], []])
            self.assertIn("</html>", html_page.render(report))

    def test_Files_MissingOrBroken_AreNamedAndTheRestIsThere(self):
        for other in ('{"benchmark": "serve", "parts": {"get": {"ru', "[]", "", "7", "[" * 100000,
                      '{"benchmark": "blocks", "parts": {"a": {}}}',
                      '{"benchmark": "serve", "parts": {}}'):
            self.put("serve.json", other)
            pages = {page.name: page for page in self.report().pages}
            self.assertTrue(pages["remote-blocks"].done)
            self.assertIn("serve.json", pages["remote-serve"].statement, other)
            command = f"pulse bench serve --json {self.dir}/serve.json"
            self.assertEqual(pages["remote-serve"].command, command)
            self.assertEqual(pages["remote-director"].statement, "Not run.")
            self.assertAnyHas("1 of 3 experiments have run", self.report().warnings)


class OtherPagesTest(ReportTestCase):
    def test_UnknownFiles_AreListed(self):
        self.put("novel.json", {"benchmark": "novel", "workloads": [
            {"workload": "A", "runs": [run(STOCK, 1, 10), run(PULSE, 1, 20)]}]})
        self.put("strange.json", {"x": 1})
        self.put("broken.json", "{")
        self.put("fill2.json", paper_result("fillrandom", "1024 B"))
        pages = {page.name: page for page in self.report().pages}
        self.assertEqual(pages["novel"].tables[0].rows[1][:2], [PULSE, "20.0"])
        self.assertIn("does not know", pages["strange"].statement)
        self.assertAnyHas("no runs and no ratios", pages["strange"].notes)
        self.assertIn("broken.json is no JSON", pages["broken"].statement)
        self.assertTrue(pages["fill2"].charts)

    def test_Soak_Result_HasVerdictChartAndTrends(self):
        self.put("soak.json", soak())
        page = self.page("soak")
        self.assertIn("1 kill, 1 slow", page.statement)
        self.assertIn("The soak passed", page.statement)
        self.assertEqual(page.charts[0].kind, "panels")
        self.assertEqual(self.table(page, "quarters").rows[0][0], "host memory")
        failed = soak()
        failed["result"].update(passed=False, problems=["host memory grows"])
        self.put("soak.json", failed)
        self.assertIn("FAILED", self.page("soak").statement)
        self.assertIn("host memory grows", self.page("soak").notes)

    def test_Ring_Result_HasChartAndRatios(self):
        self.put("ring.json", ring())
        page = self.page("ring")
        self.assertEqual(len(page.charts[0].panels), 2)
        self.assertEqual(page.tables[0].rows[0][0], "rate, progress / farm")

    def test_WithoutACatalogue_ItIsSaid(self):
        self.put("fillrandom.json", paper_result("fillrandom", "1024 B"))
        self.assertAnyHas("experiments.json", self.report().warnings)
        self.assertTrue(self.page("fillrandom").charts)
        self.put_catalogue("fillrandom")
        self.assertNoneHas("experiments.json", self.report().warnings)


class Checker(HTMLParser):
    """Whether elements are closed in their order."""
    VOID = {"meta", "link", "img", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.problems, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(tag)


class TextTest(ReportTestCase):
    def evil_report(self):
        result = paper_result("fillrandom", EVIL, "B")
        result["machine"]["cpu"] = result["settings"]["uri_options"] = EVIL
        result["settings"][EVIL] = EVIL
        result["rows"][0]["runs"][0]["variant"] = EVIL
        self.put("fillrandom.json", result)
        self.put("experiments.json", {"targets": [aim(row=EVIL)], "experiments": [
            {"name": "fillrandom", "title": EVIL, "paper": {
                "figures": [EVIL], "differs": EVIL,
                "values": [{"what": EVIL, "where": EVIL, "value": 1,
                            "ours": {"metric": "ops_per_s", "of": PULSE}}]}},
            {"name": "tails", "title": EVIL}]})
        evil = blocks()
        evil["parts"][EVIL] = part("reads", {EVIL: (1, 1)})
        evil["ratios"][0].update(ratio=EVIL, verdict=EVIL)
        self.put("blocks.json", evil)
        return self.report()

    def test_Html_AnyText_IsEscaped(self):
        html = html_page.render(self.evil_report())
        self.assertFalse("<script>alert" in html)
        self.assertFalse("\x01" in html)
        self.assertEqual(html.count("<script"), 1)

    def test_Html_Elements_AreClosedAndIdsUnique(self):
        checker = Checker()
        checker.feed(html_page.render(self.evil_report()))
        self.assertEqual((checker.problems, checker.open), ([], []))
        ids = [one for one in checker.ids if not re.fullmatch(r"[pm][0-9a-f]{10}", one)]
        self.assertEqual(len(ids), len(set(ids)))

    def test_Html_Page_FetchesNothing(self):
        self.put("fillrandom.json", paper_result("fillrandom", "A"))
        html = html_page.render(self.report())
        for known in ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"):
            html = html.replace(known, "")
        self.assertNotIn("://", html)
        self.assertNotIn("src=", html)
        self.assertIn("default-src 'none'", html)

    def test_Markdown_AnyText_IsEscaped(self):
        writer = markdown_page.Writer("plots")
        text = writer.write(self.evil_report())
        self.assertNotIn("<script>alert(", text)
        self.assertIn("\\|\\`\\*\\[&amp;", text)
        for name, svg in writer.plots.items():
            self.assertNotIn("<script", svg, name)

    def test_Markdown_Plots_AreLightAndDark(self):
        self.put_catalogue("fillrandom")
        self.put("fillrandom.json", paper_result("fillrandom", "128 B", "1024 B"))
        writer = markdown_page.Writer("results-plots")
        text = writer.write(self.report())
        self.assertEqual(list(writer.plots), [f"{name}-{theme}.svg" for name in (
            "paper-1", "fillrandom") for theme in ("light", "dark")])
        self.assertIn('<source media="(prefers-color-scheme: dark)" '
                      'srcset="results-plots/fillrandom-dark.svg">', text)
        self.assertIn('src="results-plots/fillrandom-light.svg"', text)
        self.assertIn("| 1024 B, pulse |", text)
        for fact in ("PulseDB: 1.2 (aaa)", "measured: 2020-01-02", "RocksDB: unknown"):
            self.assertIn(fact, text)


class FilesTest(ReportTestCase):
    def run_program(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            status = program.main([str(word) for word in words])
        return status, said.getvalue()

    def write_tails(self):
        self.put("tails.json", paper_result("tails", "1024 B"))

    def test_Page_IsWrittenWholeOrNotAtAll(self):
        self.write_tails()
        self.assertEqual(self.run_program(self.dir), (0, ""))
        self.assertIn("</html>", (self.dir / "report.html").read_text())
        self.assertFalse(list(self.dir.glob("*.part")))
        status, said = self.run_program(self.dir, "--out", self.dir / "none" / "report.html")
        self.assertEqual(status, program.WRONG_INPUT)
        self.assertIn("report.html failed: No such file", said)

    def test_Directory_WithoutResults_IsRefusedUnlessAllowed(self):
        status, said = self.run_program(self.dir)
        self.assertEqual(status, program.WRONG_INPUT)
        self.assertIn("there is no result in", said)
        self.assertIn("without --report-only", said)
        self.put_catalogue("tails", targets=[aim("tails")])
        self.assertEqual(self.run_program(self.dir, "--allow-empty")[0], 0)
        self.assertIn("Not run.", (self.dir / "report.html").read_text())

    def test_File_Malformed_IsNamedWithTheRemedy(self):
        self.write_tails()
        self.put("serve.json", "{")
        status, said = self.run_program(self.dir)
        self.assertEqual(status, 0)
        self.assertRegex(said, r"serve\.json is no JSON .*run its benchmark again")
        for text, words in (("{", "is no JSON"), ("[1]", "no JSON object")):
            self.put("soak.json", text)
            with self.assertRaisesRegex(ReportError, f"soak.json.*{words}.*remove it"):
                read_json(self.dir / "soak.json")
        with self.assertRaisesRegex(ReportError, "absent.json is missing; run the benchmark"):
            read_json(self.dir / "absent.json")
        self.put("experiments.json", "{")
        status, said = self.run_program(self.dir)
        self.assertEqual(status, program.WRONG_INPUT)
        self.assertIn("experiments.json is no JSON", said)

    def test_Page_ThatCannotBeMade_IsNamedAndTheOthersAre(self):
        self.write_tails()
        self.put("blocks.json", blocks())
        fails = mock.Mock(side_effect=TypeError("no list"))
        with mock.patch.dict(program.build.BENCHMARK_PAGES, {"blocks": fails}):
            status, said = self.run_program(self.dir)
        self.assertEqual(status, program.NOT_WHOLE)
        self.assertRegex(said.splitlines()[-1], r"report\.html lacks .*blocks\.json: TypeError: no list")
        html = (self.dir / "report.html").read_text()
        self.assertRegex(html, r"This page could not be made of [^<]*blocks\.json: TypeError")
        self.assertIn('id="tails"', html)
        with mock.patch.object(charts, "draw", side_effect=ValueError("no scale")):
            status, said = self.run_program(self.dir, "--markdown", self.dir / "doc.md")
        self.assertEqual(status, program.NOT_WHOLE)
        self.assertIn("`tails`", (self.dir / "doc.md").read_text())
        self.assertRegex(said, r"chart .*: ValueError: no scale")

    def test_Paper_OfOddTypes_MakesItsPage(self):
        for paper in ({"figures": None}, {"figures": 3, "values": None}, None):
            self.put("novel.json", {"paper": paper})
            self.assertEqual(self.run_program(self.dir), (0, ""))

    def test_Svg_SoakAndRing_AreDrawnAndOthersRefused(self):
        for name, result in (("soak", soak()), ("ring", ring())):
            self.put(f"{name}.json", result)
            svg = self.dir / f"{name}.svg"
            self.assertEqual(self.run_program(self.dir / f"{name}.json", "--svg", svg), (0, ""))
            self.assertIn("prefers-color-scheme: dark", svg.read_text())
        self.put("blocks.json", blocks())
        status, said = self.run_program(self.dir / "blocks.json", "--svg", self.dir / "x.svg")
        self.assertEqual(status, program.WRONG_INPUT)
        self.assertIn("soak and ring", said)

    def test_Markdown_OnlyBetweenTheMarks_IsReplaced(self):
        self.write_tails()
        before, after = "# Results\n\nBy hand.\xff\n\n", "\n\n## More\n\nBy hand, too.\n"
        document = self.dir / "doc.md"
        document.write_text(f"{before}{BEGIN}\nold\n{END}{after}")
        self.assertEqual(self.run_program("--check", "--markdown", document)[0], 0)
        self.assertIn("\nold\n", document.read_text())  # a check changes nothing
        (self.dir / "doc-plots").mkdir()
        (self.dir / "doc-plots" / "queue-9-dark.svg").write_text("old")
        (self.dir / "doc-plots" / "notes.txt").write_text("mine")
        for _ in range(2):
            self.assertEqual(self.run_program(self.dir, "--markdown", document)[0], 0)
            now = document.read_text()
            self.assertTrue(now.startswith(before) and now.endswith(after))
            self.assertNotIn("\nold\n", now)
            self.assertIn("doc-plots/tails-light.svg", now)
            self.assertEqual(now.count(BEGIN), 1)
        plots = sorted(path.name for path in (self.dir / "doc-plots").iterdir())
        self.assertIn("tails-dark.svg", plots)
        self.assertIn("notes.txt", plots)
        self.assertNotIn("queue-9-dark.svg", plots)

    def test_Markdown_NewDocument_GetsItsMarks(self):
        self.write_tails()
        self.assertEqual(self.run_program(self.dir, "--markdown", self.dir / "new.md")[0], 0)
        self.assertIn(BEGIN, (self.dir / "new.md").read_text())

    def test_Markdown_WithoutMarks_IsRefusedAndLeft(self):
        self.write_tails()
        document = self.dir / "doc.md"
        for text in ("by hand\n", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n",
                     f"see {BEGIN}\n{END}\n", f"{BEGIN}\n{END} here\n"):
            document.write_text(text)
            for words in (("--check",), (self.dir,)):
                status, said = self.run_program(*words, "--markdown", document)
                self.assertEqual(status, program.WRONG_INPUT, text)
                self.assertIn(BEGIN, said)
            self.assertEqual(document.read_text(), text)
        self.assertFalse((self.dir / "doc-plots").exists())
        self.assertIn("this is no file", self.run_program("--check", "--markdown", self.dir)[1])

    def test_Package_Missing_SaysTheRemedy(self):
        self.write_tails()
        for module in ("matplotlib", "jinja2"):
            with mock.patch.dict(sys.modules, {module: None}):
                if module == "matplotlib":
                    sys.modules["matplotlib.backends.backend_svg"] = None
                status, said = self.run_program(self.dir)
            self.assertEqual(status, program.NO_PACKAGE, module)
            self.assertIn("install python3-matplotlib and python3-jinja2", said)

    def test_Program_RunAlone_LeavesNoFilesInTheSourceTree(self):
        self.write_tails()
        source = Path(program.__file__).resolve()
        before = set(source.parent.rglob("*"))
        subprocess.run([sys.executable, source, self.dir], check=True, env=dict(os.environ))
        self.assertEqual(set(source.parent.rglob("*")), before)
        self.assertTrue(json.loads((self.dir / "tails.json").read_text()))


if __name__ == "__main__":
    unittest.main()
