#!/usr/bin/env python3
"""compare_reports.py STOCK PULSE: JUnit reports of one suite without and on PulseDB.

Prints how many cases passed in each, and the cases that passed in STOCK only; exit code 1 if there are any, or if
STOCK has none."""
import pathlib
import sys
import xml.etree.ElementTree


def cases(directory):
    """{case: passed} of the reports in `directory`."""
    found = {}
    for path in sorted(pathlib.Path(directory).glob("TEST-*.xml")):
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            states = {child.tag for child in case}
            if "skipped" not in states:
                name = f"{case.get('classname')}.{case.get('name')}"
                found[name] = not states & {"failure", "error"}
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    stock, pulse = cases(sys.argv[1]), cases(sys.argv[2])
    passed = [name for name, ok in stock.items() if ok]
    lost = [name for name in passed if not pulse.get(name)]
    print(f"{len(passed)} of {len(stock)} pass without PulseDB, {sum(pulse.values())} of {len(pulse)} on it")
    for name in lost:
        print(f"  {'fails' if name in pulse else 'did not run'} on PulseDB only: {name}")
    if not passed or lost:
        sys.exit(1)


if __name__ == "__main__":
    main()
