#!/usr/bin/env python3
"""tck_test.py DRIVER: whether tck.py finds what is wrong with a scenario, and nothing where all is right."""
import sys
import tempfile

import tck

FEATURE = """Feature: Sample
  Scenario: one
    Given an empty graph
    And having executed:
      \"\"\"
      CREATE (:A {x: 1, s: 'it''s'})-[:T]->(:B)
      \"\"\"
    When executing query:
      \"\"\"
      %s
      \"\"\"
    Then %s
"""
TABLE = "the result should be, in %s:\n      | v |\n"


def row(*values, order="any order"):
    return TABLE % order + "".join(f"      | {value} |\n" for value in values)


# Query, expectation, and whether the two agree.
CASES = [
    ("UNWIND [1, 2] AS v RETURN v", row("1", "2"), True),
    ("UNWIND [1, 2] AS v RETURN v", row("2", "1"), True),
    ("UNWIND [1, 2] AS v RETURN v", row("2", "1", order="order"), False),
    ("UNWIND [1, 2] AS v RETURN v", row("1", "1"), False),
    ("UNWIND [1, 2] AS v RETURN v", row("1"), False),
    ("RETURN 1 AS v", row("1.0"), False),
    ("RETURN 1.0 AS v", row("1.0"), True),
    ("RETURN '1' AS v", row("1"), False),
    ("RETURN null AS v", row("null"), True),
    ("RETURN [1, [2]] AS v", row("[1, [2]]"), True),
    ("RETURN [1, 2] AS v", row("[2, 1]"), False),
    ("RETURN [1, 2] AS v", "the result should be (ignoring element order for lists):\n      | v |\n      | [2, 1] |\n", True),
    ("RETURN {a: 1, b: 'x'} AS v", row("{b: 'x', a: 1}"), True),
    ("MATCH (v:A) RETURN v {.x} AS v", row("{x: 1}"), True),
    ("MATCH (v:B) RETURN v", row("(:B)"), True),
    ("MATCH (v:B) RETURN v", row("(:A)"), False),
    ("MATCH ()-[v]->() RETURN v", row("[:T]"), True),
    ("MATCH v = (:B)<--() SET last(nodes(v)).x = null, last(nodes(v)).s = null RETURN v", row("<(:B)<-[:T]-(:A)>"), True),
    ("MATCH v = (:B)<--() SET last(nodes(v)).x = null, last(nodes(v)).s = null RETURN v", row("<(:B)-[:T]->(:A)>"), False),
    ("RETURN 1 AS w", row("1"), False),
    ("RETURN x AS v", row("1"), False),
    ("RETURN x AS v", "a SyntaxError should be raised at compile time: UndefinedVariable", True),
    ("RETURN x AS v", "a SyntaxError should be raised at runtime: UndefinedVariable", False),
    ("RETURN x AS v", "a TypeError should be raised at compile time: UndefinedVariable", False),
    ("RETURN 1 AS v", "a SyntaxError should be raised at compile time: UndefinedVariable", False),
    ("CREATE (:A)", "the result should be empty\n    And the side effects should be:\n      | +nodes | 1 |\n", True),
    ("CREATE (:C)", "the result should be empty\n    And the side effects should be:\n      | +nodes | 1 |\n", False),
    ("CREATE (:A)", "the result should be empty\n    And no side effects", False),
    ("MATCH (n) DETACH DELETE n", "the side effects should be:\n      | -nodes | 2 |\n      | -relationships | 1 |\n"
     "      | -labels | 2 |\n      | -properties | 2 |\n", True),
    ("RETURN 1 AS v", "something that nobody knows", False),
]


def main():
    failed = 0
    runner = tck.Runner(sys.argv[1], ".")
    for query, expectation, right in CASES:
        with tempfile.NamedTemporaryFile("w", suffix=".feature", encoding="utf-8") as file:
            file.write((FEATURE % (query, expectation)).replace("it''s", "it\\'s"))
            file.flush()
            scenarios = tck.parse_feature(file.name)
        whys = [runner.run(scenario) for scenario in scenarios]
        if len(whys) != 1 or (whys[0] is None) != right:
            failed += 1
            print(f"FAILED: {query!r} against {expectation!r} should {'pass' if right else 'fail'}: {whys}")
    runner.close()
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
