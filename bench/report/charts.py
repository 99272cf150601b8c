"""Charts as SVG, drawn by matplotlib. Each is drawn once, in tokens for colours; from that come the
drawing inside a page, whose colours follow the page's, and files in light or dark ones. Every mark has
a title that says its value; the whole chart is also said in words."""
import html
import io
import math
import re
import textwrap

from figures import format_figure

WIDTH = 420  # so that text is legible both in two columns and on a telephone
RIGHT = 62  # for the values behind marks
BAR, GAP, LEGEND, AXIS = 15, 10, 18, 24
STANDING = 200  # height of what stands
SMALL, LABEL = 10, 11  # px of text
MARGIN = 12  # of a file of its own
COLOURS = 6

# Told apart by people who see few colours, and at least 3 : 1 against the ground.
LIGHT = {"ground": "#ffffff", "text": "#1f2328", "muted": "#59636e", "grid": "#d8dee4",
         "c0": "#6e7781", "c1": "#0072b2", "c2": "#b87503", "c3": "#00875f", "c4": "#c8500a",
         "c5": "#a34f8d", "gone": "#cf222e", "held": "#9a6700"}
DARK = {"ground": "#0d1117", "text": "#f0f6fc", "muted": "#9198a1", "grid": "#2a313c",
        "c0": "#8b949e", "c1": "#56b4e9", "c2": "#e0a030", "c3": "#2fc49a", "c4": "#f5804a",
        "c5": "#d98fc3", "gone": "#ff7b72", "held": "#d29922"}
# Colours that no theme has, to be replaced.
TOKENS = {name: f"#fe01{i:02x}" for i, name in enumerate(LIGHT)}
COLOUR_OF = {
    "stock-default": 0, "pulse": 1, "stock-2cpu": 2, "pulse-pool": 3, "adaptive": 3, "dcomp": 4,
    "aggressive": 5, "host": 2, "split": 1, "whole": 4, "pool-on-host": 4, "pulse-on-host": 5,
    "whole-flushes": 5, "pulse-poll": 3, "pulse-libaio": 4, "pulse-threads": 5,
    "os-io_uring": 0, "os-threads": 2, "library": 3, "forwarded": 4, "offloaded": 1,
    "offloaded-copying": 5, "off": 0, "off-2cpu": 2, "on": 1, "direct": 0, "forward": 4, "spin": 1,
    "splice": 5, "cpu": 0, "lat": 1, "dual": 2, "sav": 3, "dpu": 4, "shrd": 5,
    "cpu-2": 5}


def colour_of(variant):
    """The same variant has the same colour in all charts."""
    if variant in COLOUR_OF:
        return COLOUR_OF[variant]
    if variant.startswith("pulse"):
        return COLOUR_OF["pulse"]
    return sum(variant.encode("utf-8", "replace")) % COLOURS


def missing_module():
    """What the program cannot do without here, as an error to show; empty when all is there."""
    try:
        import matplotlib.backends.backend_svg  # noqa: F401 pylint: disable=unused-import
    except ImportError as error:
        return str(error)
    return ""


def say(series, group, spread):
    name = ", ".join(part for part in (group, series.name) if part)
    text = f"{name}: {format_figure(spread.median)}"
    if spread.low != spread.high:
        text += f" (from {format_figure(spread.low)} to {format_figure(spread.high)} over pairs)"
    return text


def summary(chart):
    """All in words, for those who hear the chart."""
    text = [f"{chart.title}{', ' + chart.unit if chart.unit else ''}."]
    for i, group in enumerate(chart.groups):
        for series in chart.series:
            point = series.points[i]
            words = (say(series, group, point.ours) if point.ours
                     else f"{group}, {series.name}: not measured")
            if point.across:
                words += f" at {format_figure(point.across.median)} {chart.group_title}"
            if point.paper is not None:
                words += f"; the paper: {format_figure(point.paper)}"
            text.append(words + ".")
    if chart.band:
        text.append(chart.band.name + ".")
    for panel in chart.panels:
        for name, _, values in panel.lines:
            values = [v for v in values if v is not None]
            if values:
                text.append(f"{panel.title}, {name}: {format_figure(min(values))} to "
                            f"{format_figure(max(values))}.")
    return " ".join(text)


def text_width(text, size=LABEL):
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path
    return text_to_path.get_text_width_height_descent(text, FontProperties(size=size), False)[0]


class _Canvas:
    """One figure with its marks; y goes down from the top, in px."""

    def __init__(self, height, width=WIDTH):
        from matplotlib import rcParams
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
        rcParams["svg.fonttype"] = "none"
        rcParams["svg.hashsalt"] = "pulse"
        rcParams["font.family"] = "DejaVu Sans"  # wide: what readers have instead is narrower
        rcParams["text.parse_math"] = False
        self.height, self.width = height, width
        self.figure = Figure(figsize=(width / 72, height / 72), dpi=72)  # a point is a pixel
        FigureCanvasSVG(self.figure)
        self.titles = []

    def axes(self, left, top, right, bottom):
        """The plot between these, without a frame."""
        axes = self.figure.add_axes([left / self.width, 1 - bottom / self.height,
                                     (right - left) / self.width, (bottom - top) / self.height])
        axes.set_frame_on(False)
        axes.tick_params(length=0, color=TOKENS["grid"], labelsize=SMALL,
                         labelcolor=TOKENS["muted"], pad=4)
        axes.set_axisbelow(True)
        return axes

    def text(self, x, y, text, size=LABEL, colour="text", **more):
        self.figure.text(x / self.width, 1 - y / self.height, text, size=size, va="center",
                         color=TOKENS[colour], **more)

    def swatch(self, x, y, colour, alpha=1.0, diamond=False):
        from matplotlib.lines import Line2D
        self.figure.add_artist(Line2D(
            [x / self.width], [1 - y / self.height], marker="D" if diamond else "s", linestyle="",
            markersize=6 if diamond else 9, alpha=alpha,
            markerfacecolor=TOKENS["ground" if diamond else colour],
            markeredgecolor=TOKENS["text" if diamond else colour],
            markeredgewidth=1 if diamond else 0))

    def mark(self, title, value):
        """The id of an artist that shows `value`."""
        self.titles.append((title, f'class="mark" data-value="{value:g}"'))
        return f"mark-{len(self.titles) - 1}"

    def note(self, title):
        """The id of an artist that is no figure of ours, and has a title all the same."""
        self.titles.append((title, 'class="note"'))
        return f"mark-{len(self.titles) - 1}"

    def svg(self, label):
        """The <svg> element in tokens."""
        out = io.StringIO()
        none = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self.figure.savefig(out, format="svg", metadata=none, transparent=True)
        svg = out.getvalue()
        svg = svg[svg.index("<svg"):]
        svg = re.sub(r"<svg[^>]*>", f'<svg class="chart" role="img" aria-label="{escape(label)}" '
                     'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
                     f'viewBox="0 0 {self.width:g} {self.height:g}">', svg, count=1)
        svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>|<metadata>.*?</metadata>|<!--.*?-->", "",
                     svg, flags=re.S)
        svg = re.sub(r"(font: (?:\d+ )?[\d.]+px) [^;\"]*", r"\1 system-ui, sans-serif", svg)
        svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
        for i, (title, attributes) in enumerate(self.titles):
            svg = svg.replace(f'<g id="mark-{i}">',
                              f"<g {attributes}><title>{escape(title)}</title>", 1)
        # Several charts stand in one page: ids that nobody refers to go.
        used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
        svg = re.sub(r' id="([^"]*)"', lambda m: m.group(0) if m.group(1) in used else "", svg)
        svg = re.sub(r'(?<= )(?:d|x|y)="[^"]*"', lambda m: re.sub(
            r"(\.\d\d)\d+", r"\1", " ".join(m.group(0).split())), svg)
        svg = re.sub(r'<path d="[^"]*" style="fill: none"/>', "", svg)  # frames that nobody sees
        svg = re.sub(r"\s*\n\s*", "\n", svg)
        return re.sub(r">\n(</?g>|</?defs>)", r">\1", svg)


def escape(text):
    """For XML and HTML. Control characters are gone already: results.py."""
    return html.escape(text)


def draw(chart):
    """The <svg> element in tokens."""
    kinds = {"line": _line, "against": _against, "panels": _panels}
    return kinds.get(chart.kind, _lying)(chart)


def inline(svg):
    """For a page that has the variables --text, --muted, ..."""
    for name, token in TOKENS.items():
        svg = svg.replace(token, f"var(--{name})")
    return svg


def standalone(svg, theme, other=None, title=""):
    """For a file of its own; with `other`, readers who prefer the other colours get those."""
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    wide, high = (float(side) + 2 * MARGIN for side in box.groups())
    top = MARGIN + (24 if title else 0)
    high += top - MARGIN
    frame = f'viewBox="{-MARGIN} {-top} {wide:g} {high:g}"'
    ground = (f'<rect x="{-MARGIN}" y="{-top}" width="{wide:g}" height="{high:g}" rx="6" '
              f'style="fill: {TOKENS["ground"]}"/>')
    if title:
        ground += (f'<text x="0" y="-14" style="font: 600 13px system-ui, sans-serif; fill: '
                   f'{TOKENS["text"]}">{escape(title)}</text>')
    svg = svg.replace(box.group(0), frame, 1)
    style = ""
    if other:
        rules = [f'[style*="{kind}: {theme[name]}"] {{ {kind}: {other[name]} !important }}'
                 for name in TOKENS for kind in ("fill", "stroke")]
        style = ("<style>@media (prefers-color-scheme: dark) { " + " ".join(rules) + " }</style>")
    svg = re.sub(r"(<svg[^>]*>)", lambda m: m.group(1) + style + ground, svg, count=1)
    for name, token in TOKENS.items():
        svg = svg.replace(token, theme[name])
    return svg


# ---- what all charts have


def _legend_entries(chart):
    entries = []
    if len(chart.series) > 1:
        entries += [(series.name, f"c{series.colour}", 1.0, False) for series in chart.series]
    if any(point.paper is not None for series in chart.series for point in series.points):
        entries.append(("the paper's figure", "", 1.0, True))
    if chart.band:
        entries.append((chart.band.name, "c1", 0.2, False))
    return entries


def _legend_places(entries):
    """(x, row) of each, and how many rows there are."""
    places, x, row = [], 0.0, 0
    for text, *_ in entries:
        wide = text_width(text) + 32
        if x > 0 and x + wide > WIDTH:
            x, row = 0.0, row + 1
        places.append((x, row))
        x += wide
    return places, row + 1 if entries else 0


def _legend(canvas, entries, places):
    for (text, colour, alpha, diamond), (x, row) in zip(entries, places):
        y = row * LEGEND + LEGEND / 2
        canvas.swatch(x + 6, y, colour, alpha, diamond)
        canvas.text(x + 16, y, text)


def _finite(chart):
    values = []
    for series in chart.series:
        for point in series.points:
            if point.ours:
                values += [point.ours.low, point.ours.median, point.ours.high]
            if point.paper is not None:
                values.append(point.paper)
    values += [chart.reference] if chart.reference is not None else []
    values += [chart.band.low, chart.band.high] if chart.band else []
    return [value for value in values if math.isfinite(value)]


def _tick(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _ticks(values, most_ticks):
    """Round numbers from 0 to at least the largest of `values`."""
    from matplotlib.ticker import MaxNLocator
    most = max([0.0, *values]) or 1.0
    places = MaxNLocator(most_ticks, steps=[1, 2, 5, 10]).tick_values(0, most)
    return [round(tick, 12) for tick in places if tick >= 0]


def _scale(axis, values, logarithmic, set_limits, ticks=5):
    """Round numbers from 0, or powers of ten, around `values`."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
    if logarithmic:
        positive = [value for value in values if value > 0] or [1.0]
        low = math.floor(math.log10(min(positive)) + 1e-9)
        high = max(low + 1, math.ceil(math.log10(max(positive)) - 1e-9))
        axis.axes.set_xscale("log") if axis.axis_name == "x" else axis.axes.set_yscale("log")
        # Powers of ten, and not so many that their numbers touch.
        places = [10.0 ** power for power in range(low, high + 1, 1 + (high - low) // 5)]
        axis.set_minor_locator(NullLocator())
        set_limits(10.0 ** low, 10.0 ** high)
    else:
        places = _ticks(values, ticks)
        set_limits(0, places[-1])
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
    axis.grid(True, color=TOKENS["grid"], linewidth=0.8)


def _reference_and_band(axes, chart, lying):
    if chart.band:
        (axes.axvspan if lying else axes.axhspan)(
            chart.band.low, chart.band.high, color=TOKENS["c1"], alpha=0.2, linewidth=0, zorder=0)
    if chart.reference is not None:
        (axes.axvline if lying else axes.axhline)(
            chart.reference, color=TOKENS["text"], linewidth=1.2, dashes=(4, 3), zorder=1)


# ---- groups from top to bottom


def _lying(chart):
    labels = [textwrap.fill(group, 22) for group in chart.groups]
    lines = [line for label in labels for line in label.split("\n")]
    left = min(170.0, max([28.0, *(text_width(line) for line in lines)]) + 10)
    named = len(chart.series) == 1
    each = [max(len(chart.series) * BAR + (4 if named else GAP), 14 * (label.count("\n") + 1))
            for label in labels]
    entries = _legend_entries(chart)
    places, rows = _legend_places(entries)
    top = rows * LEGEND + 4
    bottom = top + sum(each) + 4
    canvas = _Canvas(bottom + AXIS)
    _legend(canvas, entries, places)
    axes = canvas.axes(left, top, WIDTH - RIGHT, bottom)
    axes.set_ylim(bottom - top, 0)
    axes.yaxis.set_visible(False)
    _scale(axes.xaxis, _finite(chart), chart.logarithmic, axes.set_xlim,
           ticks=4 if left < 120 else 3)
    _reference_and_band(axes, chart, lying=True)
    at = 2.0
    for i, group in enumerate(chart.groups):
        words = labels[i].split("\n")
        for j, line in enumerate(words):
            y = top + at + each[i] / 2 + 13 * (j - (len(words) - 1) / 2)
            canvas.text(left - 8, y, line, ha="right")
        first = at + (each[i] - len(chart.series) * BAR) / 2
        for j, series in enumerate(chart.series):
            colour = chart.colours[i] if named and chart.colours else series.colour
            _lying_mark(canvas, axes, chart, series, group, series.points[i],
                        first + (j + 0.5) * BAR, f"c{colour}")
        at += each[i]
    return canvas.svg(summary(chart))


def _lying_mark(canvas, axes, chart, series, group, point, y, colour):
    least = axes.get_xlim()[0]
    px = lambda value: axes.transData.transform((max(value, least), y))[0]  # noqa: E731
    end, text = px(least), "not measured"
    if point.ours:
        ours, text = point.ours, format_figure(point.ours.median)
        median = max(ours.median, least)
        gid = canvas.mark(say(series, group, ours), ours.median)
        if chart.kind == "bars":
            # Nothing is still seen.
            wide = max(median, axes.get_xlim()[1] * 0.003)
            axes.barh([y], [wide], height=BAR - 3, color=TOKENS[colour])[0].set_gid(gid)
        else:
            axes.plot([median], [y], "o", markersize=7.5, color=TOKENS[colour], gid=gid,
                      markeredgewidth=0, zorder=3, clip_on=False)
        if ours.low != ours.high:
            axes.errorbar([median], [y], xerr=[[median - max(ours.low, least)],
                                               [max(ours.high, least) - median]],
                          fmt="none", ecolor=TOKENS["text"], elinewidth=1.1, capsize=2.5, zorder=4)
        end = max(px(ours.high), px(ours.median) + (4 if chart.kind == "dots" else 0))
    if point.paper is not None:
        name = ", ".join(part for part in (group, series.name) if part)
        gid = canvas.note(f"the paper, {name}: {format_figure(point.paper)}")
        axes.plot([max(point.paper, least)], [y], "D", markersize=6, gid=gid,
                  markerfacecolor=TOKENS["ground"], markeredgecolor=TOKENS["text"], zorder=5,
                  clip_on=False)
        paper = px(point.paper)
        # A value behind the paper's mark would read as its.
        if paper + 6 > end and paper - 6 < end + 10 + text_width(text, SMALL):
            end = paper + 4
            text += f" (paper {format_figure(point.paper)})" if point.ours else ""
            if end + text_width(text, SMALL) > WIDTH - 8:
                text = text.split(" (")[0]
    axes.annotate(text, (0, y), (end + 5, 0), xycoords=("figure pixels", "data"),
                  textcoords=("figure pixels", "offset points"), va="center", size=SMALL,
                  annotation_clip=False,
                  color=TOKENS["text" if point.ours else "muted"], zorder=6)


# ---- what stands


def _standing(chart, entries, places, rows, left):
    """Canvas and axes, with the words below."""
    top = rows * LEGEND + 14
    canvas = _Canvas(top + STANDING + AXIS + 18)
    _legend(canvas, entries, places)
    axes = canvas.axes(left, top, WIDTH - 24, top + STANDING)
    canvas.text((left + WIDTH - 24) / 2, top + STANDING + AXIS + 8, chart.group_title, size=SMALL,
                colour="muted", ha="center")
    return canvas, axes


def _left_of(values):
    """Room for the numbers of an upright axis."""
    return max(text_width(_tick(tick), SMALL) for tick in _ticks(values, 5)) + 10


def _line(chart):
    """Groups from left to right."""
    entries = _legend_entries(chart)
    places, rows = _legend_places(entries)
    values = _finite(chart)
    canvas, axes = _standing(chart, entries, places, rows, _left_of(values))
    _scale(axes.yaxis, values, chart.logarithmic, axes.set_ylim)
    _reference_and_band(axes, chart, lying=False)
    axes.set_xlim(-0.5, max(1, len(chart.groups)) - 0.5)
    axes.set_xticks(range(len(chart.groups)), chart.groups)
    for series in chart.series:
        colour = TOKENS[f"c{series.colour}"]
        axes.plot(range(len(chart.groups)),
                  [p.ours.median if p.ours else math.nan for p in series.points],
                  color=colour, linewidth=1.8, zorder=2)
        for i, point in enumerate(series.points):
            if point.paper is not None:
                gid = canvas.note(f"the paper, {chart.groups[i]}: {format_figure(point.paper)}")
                axes.plot([i], [point.paper], "D", markersize=6, gid=gid, zorder=5,
                          markerfacecolor=TOKENS["ground"], markeredgecolor=TOKENS["text"])
            if not point.ours:
                continue
            ours = point.ours
            gid = canvas.mark(say(series, chart.groups[i], ours), ours.median)
            axes.plot([i], [ours.median], "o", color=colour, markersize=7, gid=gid, zorder=3,
                      markeredgewidth=0)
            if ours.low != ours.high:
                axes.errorbar([i], [ours.median], yerr=[[ours.median - ours.low],
                                                        [ours.high - ours.median]],
                              fmt="none", ecolor=TOKENS["text"], elinewidth=1.1, capsize=2.5,
                              zorder=4)
            if len(chart.series) == 1:
                axes.annotate(format_figure(ours.median), (i, ours.high), (0, 9), size=SMALL,
                              textcoords="offset points", ha="center", color=TOKENS["text"])
    return canvas.svg(summary(chart))


def _against(chart):
    """One figure against another: each series is a mark, and named by the legend."""
    entries = _legend_entries(chart)
    places, rows = _legend_places(entries)
    values = _finite(chart)
    canvas, axes = _standing(chart, entries, places, rows, _left_of(values))
    _scale(axes.yaxis, values, chart.logarithmic, axes.set_ylim)
    points = [(s, i, p) for s in chart.series for i, p in enumerate(s.points) if p.ours and p.across]
    _scale(axes.xaxis, [p.across.high for _, _, p in points], False, axes.set_xlim)
    for series, i, point in points:
        up, along = point.ours, point.across
        gid = canvas.mark(f"{say(series, chart.groups[i], up)} at {format_figure(along.median)} "
                          f"{chart.group_title}", up.median)
        axes.errorbar([along.median], [up.median],
                      xerr=[[along.median - along.low], [along.high - along.median]],
                      yerr=[[up.median - up.low], [up.high - up.median]], fmt="none",
                      ecolor=TOKENS["text"], elinewidth=1.0, zorder=2)
        axes.plot([along.median], [up.median], "o", color=TOKENS[f"c{series.colour}"], markersize=9,
                  gid=gid, zorder=3, markeredgewidth=0, clip_on=False)
    return canvas.svg(summary(chart))


# ---- several panels over one axis, of time or of categories


def _panels(chart):
    high, gap = 84, 42
    names = list(dict.fromkeys(name for panel in chart.panels for name, _, _ in panel.lines))
    shared = all(len(panel.lines) == len(names) for panel in chart.panels) and len(names) > 1
    entries = [(name, f"c{(i + 1) % COLOURS}", 1.0, False) for i, name in enumerate(names)] if (
        shared) else []
    if chart.marks:
        entries += [("agent killed or ended, until the next is started", "gone", 0.3, False),
                    ("agent stopped or slowed", "held", 0.3, False)]
    places, rows = _legend_places(entries)
    top = rows * LEGEND
    canvas = _Canvas(top + len(chart.panels) * (high + gap) + AXIS + 14)
    _legend(canvas, entries, places)
    times = [x for panel in chart.panels for _, xs, _ in panel.lines for x in xs]
    most = max([1e-3, *times])
    unit, unit_name = (60.0, "minutes") if most >= 180 else (1.0, "seconds")
    for i, panel in enumerate(chart.panels):
        y = top + i * (high + gap) + gap
        values = [v for _, _, vs in panel.lines for v in vs if v is not None and math.isfinite(v)]
        axes = canvas.axes(56, y, WIDTH - 12, y + high)
        _scale(axes.yaxis, values, chart.logarithmic, axes.set_ylim, ticks=3)
        canvas.text(0, y - 14, panel.title, weight="bold")
        own = "" if shared or len(panel.lines) < 2 else panel.lines
        x = WIDTH - 12
        for j in reversed(range(len(panel.lines))):
            name, xs, ys = panel.lines[j]
            colour = names.index(name) if shared else j
            token = TOKENS[f"c{(colour + 1) % COLOURS}"]
            if own:
                x -= text_width(name)
                canvas.text(x, y - 14, name)
                canvas.swatch(x - 9, y - 14, f"c{(colour + 1) % COLOURS}")
                x -= 30
            seen = [v for v in ys if v is not None and math.isfinite(v)]
            if not seen:
                continue
            gid = canvas.mark(f"{panel.title}, {name}: {format_figure(min(seen))} to "
                              f"{format_figure(max(seen))}", max(seen))
            axes.plot([at / unit for at in xs] if not chart.categories else xs,
                      [math.nan if v is None else v for v in ys], color=token, linewidth=1.4,
                      gid=gid, solid_joinstyle="round",
                      marker="o" if chart.categories else None, markersize=3.5)
        for span in chart.marks:
            axes.axvspan(span.begin / unit, span.end / unit, alpha=0.25,
                         color=TOKENS["gone" if span.strong else "held"],
                         linewidth=0.8 if span.strong else 0,
                         gid=canvas.note(f"{span.name}, {span.begin:.1f} s to {span.end:.1f} s"))
        if chart.categories:
            axes.set_xlim(-0.3, len(chart.categories) - 0.7)
            axes.set_xticks(range(len(chart.categories)), chart.categories)
        else:
            axes.set_xlim(0, most / unit)
        if i + 1 < len(chart.panels):
            axes.tick_params(labelbottom=False)
    canvas.text(WIDTH - 12, canvas.height - 8, chart.group_title or unit_name, size=SMALL,
                colour="muted", ha="right")
    return canvas.svg(summary(chart))
