"""Charts: what an SVG shows and says."""
import re
import unittest
from xml.etree import ElementTree

from samples import ReportTestCase, ring, soak
import charts
from model import Band, Chart, Point, Series, Spread
from other_pages import ring_chart
from soak import chart_of

SVG = "{http://www.w3.org/2000/svg}"


def bars():
    return Chart("bars", 'Speed <of> & "all"', "per second", groups=["128 B", "1024 B"], series=[
        Series("stock", 0, [Point(Spread(100, 90, 110, 3)), Point(Spread(50, 50, 50, 3))]),
        Series("pulse", 1, [Point(Spread(200, 150, 210, 3), 180), Point(None, 75)])])


def widths(svg):
    """Of each mark's path, from left to right."""
    found = []
    for mark in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if mark.get("class") == "mark":
            xs = [float(x) for x in re.findall(r"[ML] ([\d.]+)", mark.find(f"{SVG}path").get("d"))]
            found.append((min(xs), max(xs) - min(xs)))
    return found


class ChartsTest(ReportTestCase):
    def test_Bars_Values_AreTheirLengthsFromOneZero(self):
        found = widths(charts.draw(bars()))
        self.assertEqual(len(found), 3)
        (left, stock), (left2, pulse), (left3, small) = found
        self.assertAlmostEqual(pulse / stock, 2, delta=0.01)
        self.assertAlmostEqual(stock / small, 2, delta=0.02)
        self.assertEqual((left, left), (left2, left3))

    def test_Bars_Values_AreSaidInWords(self):
        svg = charts.draw(bars())
        self.assertIn("<title>128 B, pulse: 200 (from 150 to 210 over pairs)</title>", svg)
        self.assertIn("<title>1024 B, stock: 50.0</title>", svg)
        self.assertIn("<title>the paper, 128 B, pulse: 180</title>", svg)
        self.assertIn('role="img" aria-label="Speed &lt;of&gt; &amp; &quot;all&quot;', svg)
        self.assertIn("1024 B, pulse: not measured; the paper: 75.0.", svg)
        self.assertIn(">not measured</text>", svg)

    def test_Inline_Colours_FollowThePage(self):
        svg = charts.inline(charts.draw(bars()))
        self.assertIn("var(--c1)", svg)
        self.assertNotIn("<style", svg)
        self.assertNotRegex(svg, r"#fe01")
        for colour in re.findall(r"(?:fill|stroke): (#\w+)", svg):
            self.fail(f"{colour} is not the page's")

    def test_Inline_SeveralChartsInAPage_HaveNoCommonIdButEqualOnes(self):
        svgs = [charts.draw(bars()), charts.draw(chart_of(soak()))]
        for svg in svgs:
            self.assertNotIn('id="axes', svg)
            for used in re.findall(r"url\(#([^)]*)\)", svg):
                self.assertIn(f'id="{used}"', svg)

    def test_Standalone_Themes_HaveColoursOfTheirOwn(self):
        svg = charts.draw(bars())
        light, dark = (charts.standalone(svg, theme) for theme in (charts.LIGHT, charts.DARK))
        self.assertIn(charts.LIGHT["c1"], light)
        self.assertIn(charts.DARK["c1"], dark)
        self.assertNotIn("var(", light + dark)
        for text in (light, dark):
            ElementTree.fromstring(text)
        self.assertEqual(charts.standalone(charts.draw(bars()), charts.LIGHT), light)  # repeatable

    def test_Standalone_BothThemes_FollowTheReader(self):
        svg = charts.standalone(charts.draw(bars()), charts.LIGHT, charts.DARK, "A <title>")
        self.assertIn("prefers-color-scheme: dark", svg)
        self.assertIn(">A &lt;title&gt;</text>", svg)
        ElementTree.fromstring(svg)

    def test_Themes_Colours_StandOutFromTheGround(self):
        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

        def contrast(a, b):
            low, high = sorted((luminance(a), luminance(b)))
            return (high + 0.05) / (low + 0.05)

        for theme in (charts.LIGHT, charts.DARK):
            self.assertGreaterEqual(contrast(theme["text"], theme["ground"]), 7)
            self.assertGreaterEqual(contrast(theme["muted"], theme["ground"]), 4.5)
            for i in range(charts.COLOURS):
                self.assertGreaterEqual(contrast(theme[f"c{i}"], theme["ground"]), 3, i)

    def test_OddValues_AnyKind_AreDrawnWithinTheChart(self):
        for kind in ("bars", "dots", "line", "against"):
            for logarithmic in (False, True):
                chart = bars()
                chart.kind, chart.logarithmic = kind, logarithmic
                odd = Spread(0, 0, 0), Spread(-5, -9, -1), Spread(1e12, 1, 1e12), Spread(3, 2, 4)
                chart.series = [Series("a", 0, [Point(odd[0], across=odd[3]), Point(odd[1])]),
                                Series("b", 1, [Point(odd[2]), Point(odd[3], across=odd[0])])]
                svg = charts.draw(chart)
                ElementTree.fromstring(svg)
                self.assertNotRegex(svg, r' (x|y|d)="[^"]*(nan|inf)')

    def test_Nothing_AnyKind_IsStillAChart(self):
        for kind in ("bars", "dots", "line", "against", "panels"):
            ElementTree.fromstring(charts.draw(Chart(kind, "")))

    def test_Line_MissingFigure_IsAGap(self):
        def point(value):
            return Point(Spread(value, value, value) if value else None)
        svg = charts.draw(Chart("line", "sweep", groups=list("abcde"), series=[
            Series("", 1, [point(v) for v in (1, 2, None, 3, 4)])]))
        lines = [path for path in re.findall(r'd="([^"]*)"[^>]*fill: none', svg)
                 if path.count("M") == 2 and path.count("L") == 2]
        self.assertEqual(len(lines), 1, svg)

    def test_Against_FigureWithoutAPlace_IsNoMark(self):
        svg = charts.draw(Chart("against", "cpu", groups=["reads"], group_title="a second", series=[
            Series("host", 0, [Point(Spread(0.5, 0.4, 0.6), across=Spread(80, 70, 90))]),
            Series("nobody", 2, [Point(Spread(1, 1, 1))])]))
        self.assertEqual(svg.count('class="mark"'), 1)
        self.assertIn("reads, host: 0.50 (from 0.40 to 0.60 over pairs) at 80.0 a second", svg)

    def test_Band_Range_IsInTheLegend(self):
        chart = bars()
        chart.band = Band(1, 2, "the paper, Fig. 1: 1 – 2")
        self.assertIn(">the paper, Fig. 1: 1 – 2</text>", charts.draw(chart))

    def test_Soak_EventsAndGaps_AreSeen(self):
        svg = charts.draw(chart_of(soak()))
        self.assertIn("<title>kill, 2.0 s to 4.0 s</title>", svg)
        self.assertIn("<title>slow, 6.0 s to 10.0 s</title>", svg)
        self.assertNotIn("nan", svg)
        memory = next(p for p in chart_of(soak()).panels if p.title.startswith("resident"))
        self.assertEqual([at for at, v in zip(memory.lines[1][1], memory.lines[1][2]) if v is None],
                         [5])

    def test_Ring_Counts_AreCategoriesOnALogarithmicAxis(self):
        chart = ring_chart(ring())
        self.assertEqual(chart.categories, ["1", "64"])
        svg = charts.draw(chart)
        for text in (">64</text>", ">producers</text>", ">10</text>", ">100</text>"):
            self.assertIn(text, svg)


if __name__ == "__main__":
    unittest.main()
