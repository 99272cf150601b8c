#!/usr/bin/env python3
"""Makes the report of what benchmarks have measured, from the JSON files that they leave.

  report.py RESULTS_DIR [--out report.html] [--markdown FILE] [--against DIR]   the page, and into a document
  report.py --svg FILE.svg RESULT.json                          the chart of a soak or a ring benchmark
  report.py --check [--markdown FILE]                           whether it could be written here

Needs Debian's python3-matplotlib and python3-jinja2. Exit status: 0 done; 2 the input is wrong; 3 this
machine lacks a Python package; 4 a part of the page could not be made, and the others are."""
import argparse
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

import build  # noqa: E402
import charts  # noqa: E402
import html_page  # noqa: E402
import markdown_page  # noqa: E402
import other_pages  # noqa: E402
import remote  # noqa: E402
import results  # noqa: E402
import soak  # noqa: E402
from figures import text_in  # noqa: E402

WRONG_INPUT, NO_PACKAGE, NOT_WHOLE = 2, 3, 4
CHARTS = {"soak": soak.chart_of, "ring": other_pages.ring_chart}


def lacking():
    """The Python package that is missing; empty when all are there."""
    try:
        import jinja2  # noqa: F401 pylint: disable=unused-import
    except ImportError as error:
        return str(error)
    return charts.missing_module()


def load(folder):
    """Also says which of its files are no results."""
    found = results.load(folder, remote.entries())
    for entry in found.entries:
        if entry.problem:
            print(f"report: {entry.problem}", file=sys.stderr)
    return found


def load_earlier(folder):
    if not folder:
        return None
    earlier = load(folder)
    if not earlier.done:
        raise results.ReportError(f"--against {folder} has no result; name the --out of an earlier run")
    return earlier


def write_page(args):
    """Whether all of it could be made."""
    found = load(args.results)
    if not found.done and not args.allow_empty:
        raise results.ReportError(
            f"there is no result in {args.results}; run the experiments first, with the same --out and "
            "without --report-only")
    report = build.build(found, load_earlier(args.against))
    out = Path(args.out or Path(args.results) / "report.html")
    markdown_page.write_whole(out, html_page.render(report))
    if args.markdown:
        markdown_page.write(args.markdown, report)
    if report.failed:
        print(f"report: {out} lacks what could not be made: {'; '.join(report.failed)}",
              file=sys.stderr)
    return not report.failed


def write_chart(args):
    result = results.read_json(args.results)
    chart = CHARTS.get(text_in(result, "benchmark"))
    if chart is None:
        raise results.ReportError(f"{args.results} has no chart: --svg is for the results of pulse "
                                  f"bench {' and '.join(CHARTS)}")
    drawn = chart(result)
    svg = charts.standalone(charts.draw(drawn), charts.LIGHT, charts.DARK, drawn.title)
    markdown_page.write_whole(args.svg, svg + "\n")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("results", nargs="?", metavar="RESULTS_DIR")
    parser.add_argument("--out", metavar="FILE", help="the page [RESULTS_DIR/report.html]")
    parser.add_argument("--markdown", metavar="FILE", help="also into this document")
    parser.add_argument("--against", metavar="DIR", help="earlier results, to compare with")
    parser.add_argument("--svg", metavar="FILE", help="only the chart of one result")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--allow-empty", action="store_true", help="of a directory without results")
    args = parser.parse_args(words)
    if not args.check and not args.results:
        parser.error("name the directory of the results")
    missing = lacking()
    if missing:
        print(f"report: {missing}; install python3-matplotlib and python3-jinja2 (apt-get install), "
              "or name a Python that has them in PULSE_PYTHON", file=sys.stderr)
        return NO_PACKAGE
    try:
        if args.markdown:
            markdown_page.check(args.markdown)
        if args.svg:
            write_chart(args)
        elif args.check:
            load_earlier(args.against)
        elif not write_page(args):
            return NOT_WHOLE
    except results.ReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return WRONG_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
