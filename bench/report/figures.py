"""The figures in a result, asked for by name: what a variant reached, its ratio to another one's
over pairs, and what the paper has for the same. All is computed from the single runs; what is missing,
null or no finite number is absent, never 0."""
import math
import statistics
from dataclasses import dataclass

from model import Spread

# Operations by the time until compactions rest as well: what goes on for ever at that rate.
WITH_BACKLOG = "paid_ops_per_s"
STOCK, BOTH, PULSE, POOL = "stock-default", "stock-2cpu", "pulse", "pulse-pool"
ADAPTIVE, DCOMP, AGGRESSIVE = "adaptive", "dcomp", "aggressive"
HOST, SPLIT, WHOLE = "host", "split", "whole"


def text_in(value, key, none=""):
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else none


def number_in(value, key, none=0.0):
    found = value.get(key) if isinstance(value, dict) else None
    return float(found) if is_number(found) else none


def is_number(value):
    # Python's integers have no end, floats do.
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and abs(value) < 1e300 and math.isfinite(value))


def flag_in(value, key):
    return isinstance(value, dict) and value.get(key) is True


def object_in(value, key):
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def list_in(value, key):
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


@dataclass(frozen=True)
class Quantity:
    """A figure of variant `of`; with `over`, the ratio of its figure to that one's in the same pair,
    or its lead in per cent points. `over` may be several, "host|split|whole": then the one of the
    highest median, so this is for metrics of which more is better."""
    metric: str
    of: str
    over: str = ""
    points: bool = False


def summarize(values):
    """None for no values."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


class FigureRow:
    """One line of an experiment: a value size, a workload."""

    def __init__(self, row):
        self.label = text_in(row, "label")
        self.runs = {}  # by variant, in the order in which they ran first, and by pair
        for run in list_in(row, "runs"):
            variant = text_in(run, "variant")
            if not variant:
                continue
            figures = self.runs.setdefault(variant, {}).setdefault(int(number_in(run, "pair")), {})
            figures.update({k: float(v) for k, v in run.items() if is_number(v)})
            if figures.get("wall_s", 0) > 0 and {"ops_per_s", "settle_s"} <= figures.keys():
                wall = figures["wall_s"]
                figures[WITH_BACKLOG] = figures["ops_per_s"] * wall / (wall + figures["settle_s"])

    @property
    def variants(self):
        return list(self.runs)

    def values(self, quantity):
        values = []
        others = self.runs.get(self.against(quantity), {})
        for pair, figures in self.runs.get(quantity.of, {}).items():
            figure = figures.get(quantity.metric)
            if figure is None:
                continue
            if not quantity.over:
                values.append(figure)
                continue
            other = others.get(pair, {}).get(quantity.metric)
            if other is None:
                continue
            if quantity.points:
                values.append(100 * (figure - other))
            elif other > 0:
                values.append(figure / other)
        return values

    def get(self, quantity):
        return summarize(self.values(quantity))

    def figure(self, metric, variant):
        return self.get(Quantity(metric, variant))

    def against(self, quantity):
        """Who `quantity` is over; empty when none of them ran."""
        if "|" not in quantity.over:
            return quantity.over if quantity.over in self.runs else ""
        best, most = "", 0.0
        for name in quantity.over.split("|"):
            figure = self.figure(quantity.metric, name)
            if figure and (not best or figure.median > most):
                best, most = name, figure.median
        return best

    def runs_without_whole(self, variant):
        """Runs in which no compaction was done whole by the agent, where that is known."""
        return sum(figures.get("whole_compactions") == 0
                   for figures in self.runs.get(variant, {}).values())


def is_whole_by_name(variant):
    return variant in (DCOMP, AGGRESSIVE, WHOLE)


def lacks_whole(row, quantity):
    """Of the first variant that `quantity` is about and that must have whole compactions, why it
    shows nothing; empty when all is well."""
    for variant in [*quantity.over.split("|"), quantity.of]:
        without = row.runs_without_whole(variant) if is_whole_by_name(variant) else 0
        if without:
            counted = len(row.values(Quantity("whole_compactions", variant)))
            return f"{variant}: no compaction ran whole in {without} of {counted} runs"
    return ""


def rows_of(result):
    return [FigureRow(row) for row in list_in(result, "rows")]


@dataclass(frozen=True)
class PaperValue:
    """What the paper says of one quantity, or of its range over all rows."""
    what: str
    where: str  # "Fig. 10"
    row: str  # the label of ours; empty: any
    low: float
    high: float
    ours: Quantity

    @property
    def is_range(self):
        return self.low != self.high


def quantity_of(value):
    return Quantity(text_in(value, "metric"), text_in(value, "of"), text_in(value, "over"),
                    flag_in(value, "points"))


def paper_values(paper):
    values = []
    for item in list_in(paper, "values"):
        ours = quantity_of(object_in(item, "ours"))
        low = number_in(item, "least", number_in(item, "value", math.nan))
        if math.isfinite(low) and ours.metric:
            values.append(PaperValue(text_in(item, "what"), text_in(item, "where"),
                                     text_in(item, "row"), low, number_in(item, "most", low), ours))
    return values


def find_paper_value(values, quantity, label):
    """The first that is about `quantity` in row `label`."""
    for value in values:
        if value.ours == quantity and value.row in ("", label):
            return value
    return None


def format_figure(value):
    """"93,917", "12.3", "1.08", "0.052"."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    if size == 0:
        return "0"
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


def format_range(spread):
    """"1.02 – 1.20"; empty where there is no spread to be seen."""
    low, high = format_figure(spread.low), format_figure(spread.high)
    return "" if low == high else f"{low} – {high}"


def format_spread(spread):
    """"1.08 (1.02 – 1.20)"."""
    text = format_range(spread)
    return format_figure(spread.median) + (f" ({text})" if text else "")
