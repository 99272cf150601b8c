"""What a report is made of: plain values, without a word of HTML, Markdown or SVG."""
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional


@dataclass(frozen=True)
class Spread:
    """A median over pairs, with the least and the most; `count` figures."""
    median: float
    low: float
    high: float
    count: int = 1

    def times(self, factor):
        return Spread(self.median * factor, self.low * factor, self.high * factor, self.count)


@dataclass
class Table:
    caption: str
    header: list  # the first column is words, the others are figures
    rows: list = field(default_factory=list)


@dataclass
class Point:
    ours: Optional[Spread] = None  # None: not measured
    paper: Optional[float] = None
    across: Optional[Spread] = None  # of an "against" chart: its place from left to right


@dataclass
class Series:
    name: str
    colour: int  # of charts.COLOURS
    points: list  # a Point for each group


@dataclass
class Band:
    low: float
    high: float
    name: str


@dataclass
class Mark:
    """A span of time, shaded in every panel."""
    begin: float
    end: float
    name: str
    strong: bool  # the agent was gone, not only held


@dataclass
class Panel:
    title: str
    lines: list  # (name, [x], [y]); a y of None leaves a gap


@dataclass
class Chart:
    """Bars and dots lie: groups from top to bottom. Lines, "against" and panels stand."""
    kind: str  # "bars", "dots", "line", "against", "panels"
    title: str
    unit: str = ""  # of the axis, with what is better
    groups: list = field(default_factory=list)
    group_title: str = ""
    colours: list = field(default_factory=list)  # of a single series: one for each group
    series: list = field(default_factory=list)
    logarithmic: bool = False
    reference: Optional[float] = None
    band: Optional[Band] = None
    panels: list = field(default_factory=list)
    marks: list = field(default_factory=list)
    categories: list = field(default_factory=list)  # of panels: instead of time


@dataclass
class Page:
    """One experiment or one service."""
    name: str
    title: str
    figures: str = ""  # "Fig. 10, Fig. 12"
    done: bool = True
    statement: str = ""  # what was measured, or why it was not
    command: str = ""  # that runs it, where it is not done
    charts: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    settings: list = field(default_factory=list)  # (name, value)


@dataclass
class Highlight:
    """A paper's figure and sentence, at the top."""
    paper: str
    sentence: str
    chart: Chart


@dataclass
class TargetRow:
    what: str
    asked: str
    got: Optional[Spread]
    verdict: str  # of targets.py
    why: str
    source: str  # the page
    pairs: int


@dataclass
class Report:
    title: str
    warnings: list = field(default_factory=list)
    lead: str = ""
    facts: list = field(default_factory=list)  # (name, value): machine, revision, date
    highlights: list = field(default_factory=list)
    pages: list = field(default_factory=list)
    targets: list = field(default_factory=list)
    targets_summary: str = ""
    needs: list = field(default_factory=list)  # what it would take to show the rest
    failed: list = field(default_factory=list)  # what could not be made, and why

    def attempt(self, what, make, otherwise):
        """What `make` returns: a file with values that no benchmark writes keeps only its own part from
        being made."""
        try:
            return make()
        except Exception as error:  # pylint: disable=broad-except
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.failed.append(f"{what}: {type(error).__name__}: {error} "
                               f"({Path(place.filename).name}:{place.lineno})")
            return otherwise
