"""The report as one HTML file that fetches nothing, in light and dark."""
from pathlib import Path

import changes
import charts
import targets
from figures import format_figure, format_range

HERE = Path(__file__).resolve().parent
# What a page needs beside the charts' colours.
LIGHT = {"soft": "#f6f8fa", "link": "#0969da", "good": "#1a7f37", "bad": "#b3261e", "warn": "#fff8c5",
         "warn-edge": "#d4a72c"}
DARK = {"soft": "#161b22", "link": "#58a6ff", "good": "#3fb950", "bad": "#ff7b72", "warn": "#2b2308",
        "warn-edge": "#9e6a03"}
CLASSES = {targets.HELD: "held", targets.MISSED: "missed",
           changes.BETTER: "held", changes.WORSE: "missed"}


def _variables(theme):
    return " ".join(f"--{name}: {colour};" for name, colour in theme.items())


def _cell(text):
    """A spread goes below its median: (above, below)."""
    median, mark, rest = text.partition(" (")
    return (median, rest[:-1]) if mark and rest.endswith(")") else (text, "")


def render(report):
    from jinja2 import Environment, FileSystemLoader
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True,
                              lstrip_blocks=True)
    sources = dict.fromkeys(row.source for row in report.targets)
    return environment.get_template("report.html.j2").render(
        report=report, cell=_cell, classes=CLASSES,
        sources=[(source, [row for row in report.targets if row.source == source])
                 for source in sources],
        figure=format_figure, spread=format_range,
        draw=lambda chart: report.attempt(f"chart {chart.title}",
                                          lambda: charts.inline(charts.draw(chart)), ""),
        light=_variables({**charts.LIGHT, **LIGHT}) + " color-scheme: light;",
        dark=_variables({**charts.DARK, **DARK}) + " color-scheme: dark;",
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        script=(HERE / "page.js").read_text(encoding="utf-8"))
