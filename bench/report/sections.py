"""How the charts and tables of a page are put together from an experiment's rows."""
from charts import colour_of
from figures import (PULSE, Quantity, find_paper_value, format_figure, format_spread, paper_values)
from model import Band, Chart, Point, Series, Spread, Table

MORE, LESS = "more is better", "less is better"


class Section:
    """Adds to `page` what `rows` have, with `paper`'s figures beside them."""

    def __init__(self, rows, paper, page):
        self.rows, self.paper, self.page = rows, paper_values(paper), page

    @property
    def variants(self):
        return list(dict.fromkeys(name for row in self.rows for name in row.variants))

    def _point(self, row, quantity, factor=1.0):
        figure = row.get(quantity)
        paper = find_paper_value(self.paper, quantity, row.label)
        return Point(figure.times(factor) if figure else None,
                     paper.low * factor if paper and not paper.is_range else None)

    def add(self, chart):
        if any(point.ours for series in chart.series for point in series.points):
            self.page.charts.append(chart)

    def by_row(self, chart, shown):
        """Groups are rows; `shown` has a name, a quantity and a factor for each series. Of a single
        row, the names are the groups."""
        if len(self.rows) == 1:
            chart.groups = [name for name, _, _ in shown]
            chart.colours = [colour_of(quantity.of) for _, quantity, _ in shown]
            chart.series = [Series("", 1, [self._point(self.rows[0], quantity, factor)
                                           for _, quantity, factor in shown])]
            return self.add(chart)
        chart.groups = [row.label for row in self.rows]
        taken = set()
        for name, quantity, factor in shown:
            colour = colour_of(quantity.of)
            if colour in taken:  # two of one variant differ in whom it is compared with
                colour = colour_of(quantity.over)
            taken.add(colour)
            chart.series.append(Series(name, colour, [self._point(row, quantity, factor)
                                                      for row in self.rows]))
        return self.add(chart)

    def absolute(self, title, unit, metric, factor=1.0):
        """Bars, one for each row and variant."""
        self.by_row(Chart("bars", title, unit),
                    [(name, Quantity(metric, name), factor) for name in self.variants])

    def by_metric(self, chart, metrics):
        """Of the first row: groups are `metrics` (name and metric), series the variants."""
        if not self.rows:
            return
        chart.groups = [name for name, _ in metrics]
        chart.series = [Series(variant, colour_of(variant),
                               [self._point(self.rows[0], Quantity(metric, variant))
                                for _, metric in metrics]) for variant in self.variants]
        self.add(chart)

    def sweep(self, chart, shown):
        """Of the first row: a line over `shown` (name and quantity)."""
        if not self.rows:
            return
        chart.groups = [name for name, _ in shown]
        chart.series = [Series("", colour_of(PULSE), [self._point(self.rows[0], quantity)
                                                      for _, quantity in shown])]
        self.add(chart)

    def ratios(self, title, metric, of_over, more_is_better=True):
        """A dot for each pair of variants and each row, around 1."""
        chart = Chart("dots", title, "ratio over pairs; 1 = equal, "
                      f"{'above' if more_is_better else 'below'} 1 is better", reference=1.0)
        if len(of_over) == 1:  # a single series has no legend that would say whose ratio it is
            chart.title += f", {of_over[0][0]} ÷ {of_over[0][1]}"
        shown = []
        for of, over in of_over:
            quantity = Quantity(metric, of, over)
            shown.append((f"{of} ÷ {over}", quantity, 1.0))
            paper = find_paper_value(self.paper, quantity, "")
            if paper and paper.is_range and not paper.row:
                chart.band = Band(paper.low, paper.high, f"the paper, {paper.where}: "
                                  f"{format_figure(paper.low)} – {format_figure(paper.high)} "
                                  "over all its rows")
        self.by_row(chart, shown)

    def figures(self, columns, caption="Medians over pairs, with the least and the most"):
        """Columns (name, metric, factor), a line for each row and variant. Without what nobody has.
        False when there is none."""
        there = [column for column in columns
                 if any(row.figure(column[1], name) for row in self.rows for name in row.variants)]
        table = Table(caption, ["", *(name for name, _, _ in there)])
        for row in self.rows:
            for variant in row.variants:
                cells = [variant if len(self.rows) == 1 else f"{row.label}, {variant}"]
                for _, metric, factor in there:
                    figure = row.figure(metric, variant)
                    cells.append(format_spread(figure.times(factor)) if figure else "–")
                table.rows.append(cells)
        if table.rows:
            self.page.tables.append(table)
        return bool(table.rows)

    def paper_table(self, caption="The paper's figures beside ours"):
        table = Table(caption, ["", "paper", "ours", "from"])
        for value in self.paper:
            factor = 100 if value.ours.metric.endswith("_share") else 1
            figures = [row.get(value.ours) for row in self.rows
                       if value.row in ("", row.label)]
            figures = [figure.times(factor) for figure in figures if figure]
            ours = "not measured"
            if figures and value.is_range:  # of a range over rows, ours is that of the medians
                medians = [figure.median for figure in figures]
                ours = format_spread(Spread(0, min(medians), max(medians)))
                ours = ours[ours.index("(") + 1:-1] if "(" in ours else format_figure(medians[0])
            elif figures:
                ours = format_spread(figures[0])
            paper = format_figure(value.low * factor)
            if value.is_range:
                paper += f" – {format_figure(value.high * factor)}"
            table.rows.append([value.what, paper, ours, value.where])
        if table.rows:
            self.page.tables.append(table)
