"""The report inside a Markdown document, between two marks, with plots as SVG files beside it: a light
and a dark one each, between which a <picture> chooses."""
import os
from pathlib import Path

import charts
from figures import format_figure, format_range
from results import ReportError

BEGIN = "<!-- pulse bench paper: begin -->"
END = "<!-- pulse bench paper: end -->"
_ESCAPES = str.maketrans({**{c: "\\" + c for c in "|\\`*_[]#~"}, "&": "&amp;", "<": "&lt;",
                          ">": "&gt;", "\n": " ", "\r": " "})


def plain(text):
    """Words of programs and of JSON files have no mark-up of their own."""
    return text.translate(_ESCAPES)


def _table(caption, header, rows):
    lines = [f"{plain(caption)}:", "", f"| {' | '.join(plain(name) for name in header)} |",
             "|" + "|".join("---" if i == 0 else "---:" for i in range(len(header))) + "|"]
    lines += ["| " + " | ".join(plain(cell) for cell in row) + " |" for row in rows]
    return lines + [""]


class Writer:
    """Text and plots; of a page, only the first chart is a plot: report.html has all."""

    def __init__(self, folder):
        self.folder, self.plots, self.lines = folder, {}, []

    def _plot(self, report, name, chart):
        svg = report.attempt(f"plot {name}", lambda: charts.draw(chart), "")
        if not svg:
            return
        self.plots[f"{name}-light.svg"] = charts.standalone(svg, charts.LIGHT) + "\n"
        self.plots[f"{name}-dark.svg"] = charts.standalone(svg, charts.DARK) + "\n"
        folder, label = charts.escape(self.folder), charts.escape(chart.title)
        self.lines += [f"**{plain(chart.title)}**{', ' + plain(chart.unit) if chart.unit else ''}", "",
                       "<picture>",
                       f'  <source media="(prefers-color-scheme: dark)" srcset="{folder}/{name}'
                       '-dark.svg">',
                       f'  <img alt="{label}" src="{folder}/{name}-light.svg" width="600">',
                       "</picture>", ""]

    def _notes(self, notes):
        self.lines += [f"* {plain(note)}" for note in notes] + ([""] if notes else [])

    def write(self, report):
        for number, highlight in enumerate(report.highlights):
            self.lines += [f"### {plain(highlight.paper)}", "", plain(highlight.sentence), ""]
            self._plot(report, f"paper-{number + 1}", highlight.chart)
        if report.facts:
            facts = "; ".join(f"{name}: {value}" for name, value in report.facts)
            self.lines += [f"Measured on: {plain(facts)}.", ""]
        self.lines += [plain(report.lead), ""]
        for warning in report.warnings:
            self.lines += [f"> {plain(warning)}", ""]
        for page in report.pages:
            self._page(report, page)
        self.lines += ["### Targets", ""]
        rows = [[row.what, row.asked, format_figure(row.got.median) if row.got else "–",
                 (format_range(row.got) if row.got else "") or "–", str(row.pairs or "–"),
                 row.verdict + (f": {row.why}" if row.why else ""), row.source]
                for row in report.targets]
        self.lines += _table(report.targets_summary.removesuffix("."),
                             ["", "asked", "got", "spread", "pairs", "verdict", "from"], rows)
        self._notes(report.needs)
        return "\n".join(self.lines)

    def _page(self, report, page):
        paper = f", in the paper {plain(page.figures)}" if page.figures else ""
        self.lines += [f"### {plain(page.title)}", "", f"`{page.name}`{paper}", "",
                       plain(page.statement), ""]
        if page.command:
            self.lines += [f"To run it: <code>{plain(page.command)}</code>", ""]
        for chart in page.charts[:1]:
            self._plot(report, page.name, chart)
        for table in page.tables:
            self.lines += _table(table.caption, table.header, table.rows)
        self._notes(page.notes)


def _find_line(document, mark):
    """Where `mark` stands once, alone on its line; -1 elsewhere."""
    at = document.find(mark)
    if at < 0 or document.find(mark, at + 1) >= 0:
        return -1
    end = at + len(mark)
    begins = at == 0 or document[at - 1] == "\n"
    ends = end == len(document) or document[end] in "\r\n"
    return at if begins and ends else -1


def replace_between_marks(document, text, name):
    begin, end = _find_line(document, BEGIN), _find_line(document, END)
    if begin < 0 or end < begin:
        raise ReportError(
            f"{name} does not say where the results go: give it, once each and on lines of their own, "
            f'"{BEGIN}" and below it "{END}"; what is between them is replaced, the rest stays')
    return f"{document[:begin]}{BEGIN}\n\n{text}{document[end:]}"


def _document(file):
    path = Path(file)
    if not path.exists():
        return f"# Results\n\n{BEGIN}\n{END}\n"
    if not path.is_file():
        raise ReportError(f"--markdown {file}: this is no file; give the name of a document")
    # As it is: line ends and bytes of other encodings stay.
    return path.read_bytes().decode("utf-8", "surrogateescape")


def check(file):
    """ReportError unless write() could write into `file`: before hours of measuring."""
    replace_between_marks(_document(file), "", file)


def write_whole(path, text):
    """All of it, or what was there stays."""
    part = Path(f"{path}.part")
    try:
        part.write_bytes(text.encode("utf-8", "surrogateescape"))
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ReportError(f"writing {path} failed: {error.strerror}; make room, or choose another "
                          "place") from error


def write(file, report):
    """Plots that are not written any more are removed from the folder beside `file`."""
    path = Path(file)
    folder = path.parent / f"{path.stem}-plots"
    writer = Writer(folder.name)
    text = replace_between_marks(_document(file), writer.write(report), file)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ReportError(f"creating {folder} failed: {error.strerror}; choose another place"
                          ) from error
    for name, svg in writer.plots.items():
        write_whole(folder / name, svg)
    write_whole(path, text)
    for old in folder.glob("*.svg"):
        if old.name.endswith(("-light.svg", "-dark.svg")) and old.name not in writer.plots:
            old.unlink()
