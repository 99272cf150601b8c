#!/usr/bin/env python3
"""tck.py DRIVER FEATURES... [--summary] [--failures FILE] [--only TEXT] [--store] [--verbose]: runs scenarios of Cypher.

FEATURES are .feature files or folders of them, written as those of the openCypher TCK; --graphs DIR holds
its named graphs. DRIVER is cypher_tck_driver, one process for all scenarios, which answers in JSON lines.
Results, their order where it matters, side effects, and of errors kind, phase and detail are compared
exactly. With --store, the queries run on the graph store rather than on a graph in memory. Prints how many scenarios of each feature pass, and the list of those that do not. Exits with 1
where one fails.
"""
import argparse
import json
import os
import re
import subprocess
import sys


class Scenario:
    def __init__(self, feature, name, path):
        self.feature, self.name, self.path, self.steps = feature, name, path, []


def cells(line):
    """The cells of a table's row; \\| is no separator."""
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [part.strip().replace("\\|", "|").replace("\\n", "\n").replace("\\\\", "\\") for part in parts]


def parse_feature(path):
    """Scenarios of a file, outlines with one for each example. A step is [text, doc string, table]."""
    feature, scenarios, background = "", [], []
    current = table = doc = None
    outline = False
    examples = None
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")

    def finish():
        if current is None:
            return
        if not outline:
            scenarios.append(current)
            return
        header, rows = current.examples[0], current.examples[1:]
        for number, row in enumerate(rows, 1):
            one = Scenario(feature, f"{current.name} #{number}", path)

            def fill(text):
                for key, value in zip(header, row):
                    text = text.replace(f"<{key}>", value)
                return text
            for text, document, rows_of in current.steps:
                one.steps.append([fill(text), None if document is None else fill(document),
                                  None if rows_of is None else [[fill(c) for c in r] for r in rows_of]])
            scenarios.append(one)

    for line in lines:
        text = line.strip()
        if doc is not None:
            if text == '"""':
                current.steps[-1][1] = "\n".join(l[doc:] if l[:doc].strip() == "" else l.strip() for l in body)
                doc = None
            else:
                body.append(line)
            continue
        if not text or text.startswith("#") or text.startswith("@"):
            continue
        if text.startswith("Feature:"):
            feature = text[8:].strip()
        elif text.startswith("Background:"):
            current, outline = Scenario(feature, "", path), False
            current.is_background = True
        elif text.startswith("Scenario"):
            if current is not None and getattr(current, "is_background", False):
                background = current.steps
            else:
                finish()
            outline = text.startswith("Scenario Outline:")
            current = Scenario(feature, text.split(":", 1)[1].strip(), path)
            current.steps = [list(step) for step in background]
            current.examples, examples = [], None
        elif text.startswith("Examples:"):
            examples = True
        elif text == '"""':
            doc, body = len(line) - len(line.lstrip()), []
        elif text.startswith("|"):
            if examples:
                current.examples.append(cells(text))
            else:
                if current.steps[-1][2] is None:
                    current.steps[-1][2] = []
                current.steps[-1][2].append(cells(text))
        else:
            current.steps.append([re.sub(r"^(Given|When|Then|And|But)\s+", "", text).rstrip("#"), None, None])
    finish()
    return scenarios


class ValueParser:
    """Parses a value as the TCK writes it into something that compares: tuples that begin with a kind."""

    def __init__(self, text, unordered_lists=False):
        self.text, self.at, self.unordered = text, 0, unordered_lists

    def fail(self):
        raise ValueError(f"no value at {self.at} of {self.text!r}")

    def space(self):
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take(self, token):
        self.space()
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token):
        if not self.take(token):
            self.fail()

    def all(self):
        value = self.value()
        self.space()
        if self.at != len(self.text):
            self.fail()
        return value

    def value(self):
        self.space()
        rest = self.text[self.at:]
        if not rest:
            self.fail()
        if rest[0] == "'":
            return ("string", self.string())
        if rest[0] == "[":
            if re.match(r"\[\s*:", rest):
                return self.edge()
            return self.list()
        if rest[0] == "{":
            return self.map()
        if rest[0] == "(":
            return self.node()
        if rest[0] == "<":
            return self.path()
        match = re.match(r"[+-]?(NaN|Infinity|Inf|[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?)", rest)
        if match:
            self.at += match.end()
            word = match[0]
            if re.fullmatch(r"[+-]?[0-9]+", word):
                return ("integer", int(word))
            if "NaN" in word:
                return ("float", "NaN")
            return ("float", float(word))
        match = re.match(r"(null|true|false)\b", rest)
        if not match:
            self.fail()
        self.at += match.end()
        return (match[0],)

    def string(self):
        out = []
        self.at += 1
        while self.at < len(self.text):
            c = self.text[self.at]
            self.at += 1
            if c == "'":
                return "".join(out)
            if c == "\\":
                c = self.text[self.at]
                self.at += 1
                c = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(c, c)
            out.append(c)
        self.fail()

    def name(self):
        self.space()
        if self.take("`"):
            end = self.text.index("`", self.at)
            name = self.text[self.at:end]
            self.at = end + 1
            return name
        match = re.match(r"[\w$.]+", self.text[self.at:])
        if not match:
            self.fail()
        self.at += match.end()
        return match[0]

    def list(self):
        items = []
        self.expect("[")
        if not self.take("]"):
            while True:
                items.append(self.value())
                if not self.take(","):
                    break
            self.expect("]")
        if self.unordered:
            items.sort(key=repr)
        return ("list", tuple(items))

    def map(self):
        entries = []
        self.expect("{")
        if not self.take("}"):
            while True:
                key = self.string() if self.text[self.at:self.at + 1] == "'" else self.name()
                self.expect(":")
                entries.append((key, self.value()))
                if not self.take(","):
                    break
            self.expect("}")
        return ("map", tuple(sorted(entries, key=lambda e: e[0])))

    def labels(self):
        names = []
        while self.take(":"):
            names.append(self.name())
        return tuple(sorted(names))

    def properties(self):
        self.space()
        return self.map() if self.text[self.at:self.at + 1] == "{" else ("map", ())

    def node(self):
        self.expect("(")
        value = ("node", self.labels(), self.properties())
        self.expect(")")
        return value

    def edge(self):
        self.expect("[")
        value = ("edge", self.labels(), self.properties())
        self.expect("]")
        return value

    def path(self):
        self.expect("<")
        steps = [self.node()]
        while not self.take(">"):
            left = self.take("<-")
            if not left:
                self.expect("-")
            edge = self.edge()
            self.expect("-" if left else "->")
            steps.append(("left" if left else "right", edge, self.node()))
        return ("path", tuple(steps))


def same_number(a, b):
    """Equal values; floats may differ in their last digits, as in the TCK's own runner."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-12 * max(abs(a), abs(b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same_number(x, y) for x, y in zip(a, b))
    return type(a) is type(b) and a == b


class Failure(Exception):
    pass


class Runner:
    def __init__(self, driver, graphs, store=False):
        self.graphs = graphs
        self.process = subprocess.Popen([driver] + ["--store"] * store, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"tck: the driver died of: {json.dumps(request)}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def run(self, scenario):
        """None, or why the scenario failed."""
        self.ask(op="reset")
        self.parameters, self.answer, self.used_error = {}, None, False
        try:
            for text, doc, table in scenario.steps:
                self.step(text, doc, table)
        except (Failure, ValueError) as failure:
            return str(failure)
        error = (self.answer or {}).get("error")
        if error and not self.used_error:
            return f"unexpected error: {error['message']}"
        return None

    def step(self, text, doc, table):
        if text in ("an empty graph", "any graph"):
            return
        if match := re.fullmatch(r"the (\S+) graph", text):
            with open(os.path.join(self.graphs, match[1], match[1] + ".cypher"), encoding="utf-8") as file:
                self.execute(file.read(), setup=True)
        elif text == "having executed:":
            self.execute(doc, setup=True)
        elif text == "parameters are:":
            self.parameters = {name: value for name, value in table}
        elif match := re.fullmatch(r"there exists a procedure (.*?)\((.*?)\)\s*::\s*\((.*?)\)\s*:", text):
            def fields(part):
                return [[f.split("::")[0].strip(), f.split("::")[1].strip()] for f in part.split(",") if f.strip()]
            rows = [row for row in (table or [])[1:] if row]
            self.ask(op="procedure", name=match[1].strip(), arguments=fields(match[2]), results=fields(match[3]), rows=rows)
        elif text in ("executing query:", "executing control query:"):
            self.execute(doc, setup=False)
        elif match := re.fullmatch(r"the result should be, in (any order|order)( \(ignoring element order for lists\))?:", text):
            self.compare(table, match[1] == "order", match[2] is not None)
        elif text == "the result should be (ignoring element order for lists):":
            self.compare(table, False, True)
        elif text == "the result should be empty":
            self.compare(None, False, False)
        elif text == "no side effects":
            self.effects({})
        elif text == "the side effects should be:":
            self.effects({name: int(count) for name, count in table if int(count) != 0})
        elif match := re.fullmatch(r"an? (\w+) should be raised at (compile time|runtime|any time): (\S+)", text):
            self.error(*match.groups())
        else:
            raise Failure(f"unknown step: {text}")

    def execute(self, query, setup):
        self.answer = self.ask(op="run", query=query, parameters={} if setup else self.parameters)
        if setup and "error" in self.answer:
            raise Failure(f"set-up failed: {self.answer['error']['message']}")
        if not setup:
            self.used_error = False

    def compare(self, table, ordered, unordered_lists):
        if "error" in self.answer:
            self.used_error = True
            raise Failure(f"unexpected error: {self.answer['error']['message']}")
        rows = self.answer["rows"]
        if table is None:
            if rows:
                raise Failure(f"expected no rows, found {rows}")
            return
        header = table[0]
        if sorted(header) != sorted(self.answer["columns"]):
            raise Failure(f"expected columns {header}, found {self.answer['columns']}")
        order = [self.answer["columns"].index(name) for name in header]
        want = [tuple(ValueParser(c, unordered_lists).all() for c in row) for row in table[1:]]
        have = [tuple(ValueParser(row[i], unordered_lists).all() for i in order) for row in rows]
        if ordered:
            if len(want) == len(have) and all(same_number(a, b) for a, b in zip(want, have)):
                return
        elif len(want) == len(have):
            left = list(have)
            for row in want:
                found = next((i for i, other in enumerate(left) if same_number(row, other)), None)
                if found is None:
                    break
                left.pop(found)
            else:
                return
        raise Failure(f"expected {table[1:]}, found {[[row[i] for i in order] for row in rows]}")

    def effects(self, want):
        if self.answer.get("effects") != want:
            raise Failure(f"expected side effects {want}, found {self.answer.get('effects')}")

    def error(self, kind, phase, detail):
        error = self.answer.get("error")
        self.used_error = True
        if error is None:
            raise Failure(f"expected {kind} {detail} at {phase}, found rows {self.answer['rows'][:3]}")
        same = (error["kind"] == kind and (phase == "any time" or error["phase"] == phase)
                and (detail == "*" or error["detail"] == detail))
        if not same:
            raise Failure(f"expected {kind} {detail} at {phase}, found {error['kind']} {error['detail']} at "
                          f"{error['phase']}: {error['message']}")


def feature_files(paths):
    for path in paths:
        if os.path.isfile(path):
            yield path
        for folder, folders, files in os.walk(path):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".feature"):
                    yield os.path.join(folder, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("driver")
    parser.add_argument("features", nargs="+")
    parser.add_argument("--graphs", default=".", help="folder of the TCK's named graphs")
    parser.add_argument("--failures", help="write the list of failures to this file, too")
    parser.add_argument("--only", default="", help="run only scenarios whose feature or name holds this text")
    parser.add_argument("--summary", action="store_true", help="do not print the list of failures")
    parser.add_argument("--store", action="store_true", help="run on the graph store")
    parser.add_argument("--verbose", action="store_true", help="say why each scenario failed")
    parser.add_argument("--minimum", type=float, help="succeed where this percentage passes")
    args = parser.parse_args()
    runner = Runner(args.driver, args.graphs, args.store)
    total = passed = 0
    failures = []
    for path in feature_files(args.features):
        count = good = 0
        scenarios = parse_feature(path)
        for scenario in scenarios:
            if args.only not in f"{scenario.feature}: {scenario.name}":
                continue
            count += 1
            why = runner.run(scenario)
            if why is None:
                good += 1
            else:
                failures.append((scenario, why))
        if count:
            print(f"{good:5} of {count:5}  {scenarios[0].feature}")
        total, passed = total + count, passed + good
    runner.close()
    lines = [f"{scenario.feature}: {scenario.name}" for scenario, _ in failures]
    if args.failures:
        with open(args.failures, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
    if failures and not args.summary:
        print("\nThese fail:")
        for line, (_, why) in zip(lines, failures):
            print("  " + line)
            if args.verbose:
                print("      " + why.replace("\n", "\n      ")[:700])
    share = 100.0 * passed / total if total else 0.0
    print(f"\n{passed} passed, {total - passed} failed")
    print(f"tck: {share:.1f} % of {total} scenarios")
    if args.minimum is not None:
        return 0 if total and share >= args.minimum else 1
    return 1 if failures or not total else 0


if __name__ == "__main__":
    sys.exit(main())
