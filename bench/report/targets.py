"""What the project set out to reach, as experiments.json lists it, and what a set of results says
about it."""
from dataclasses import dataclass

from figures import (Quantity, flag_in, lacks_whole, list_in, number_in, object_in, quantity_of,
                     rows_of, text_in)
from model import TargetRow

HELD, MISSED, NOT_CLEAR = "held", "missed", "not clear"
NOT_MEASURED, NOT_SHOWN = "not measured", "not shown here"
STALLS_NOTICED = 1  # per cent points, below which nobody would speak of stalls


@dataclass(frozen=True)
class Target:
    kind: str  # "at least", "at most", "above", "within"
    value: float
    most: float = 0.0

    def reached_by(self, ratio):
        return {"at least": ratio >= self.value, "at most": ratio <= self.value,
                "above": ratio > self.value,
                "within": self.value <= ratio <= self.most}.get(self.kind, False)

    def judge(self, spread):
        """One pair has no spread, so it supports nothing."""
        if spread.count < 2:
            return NOT_CLEAR
        low, high = self.reached_by(spread.low), self.reached_by(spread.high)
        if low and high:
            return HELD
        around = self.kind == "within" and spread.low < self.value and spread.high > self.most
        return NOT_CLEAR if low or high or around else MISSED

    def __str__(self):
        if self.kind == "within":
            return f"{self.value:g} to {self.most:g}"
        return f"{self.kind} {self.value:g}"


@dataclass(frozen=True)
class Aim:
    what: str
    experiment: str
    row: str  # the label
    quantity: Quantity
    target: Target
    needs: str  # what it would take to show it, where it cannot be shown


def aims_in(catalogue):
    aims = []
    for item in list_in(catalogue, "targets"):
        target = object_in(item, "target")
        aims.append(Aim(text_in(item, "what"), text_in(item, "experiment"), text_in(item, "row"),
                        quantity_of(object_in(item, "quantity")),
                        Target(text_in(target, "kind"), number_in(target, "value"),
                               number_in(target, "most")), text_in(item, "needs")))
    return aims


def _against_all(aim, row, best):
    """Of several that it is compared with, the outcome against whom it does worst: held is what
    holds against each. `best` goes before others against which it does no worse."""
    names = sorted(aim.quantity.over.split("|"), key=lambda name: name != best)
    order = {HELD: 0, NOT_CLEAR: 1, MISSED: 2}
    outcome, worst, absent = HELD, best, []
    for name in names:
        one = Quantity(aim.quantity.metric, aim.quantity.of, name)
        got = row.get(one)
        if got is None:
            absent.append(name)
        if got is None or lacks_whole(row, one):
            continue
        now = aim.target.judge(got)
        if order[now] > order[outcome]:
            outcome, worst = now, name
    return outcome, worst, absent


def judge(aim, result):
    """`result` is None where the experiment has not run."""
    def answer(verdict, got=None, why="", against=""):
        what = f"{aim.what} ({against})" if against else aim.what
        return TargetRow(what, str(aim.target), got, verdict, why, aim.experiment,
                         got.count if got else 0)

    if result is None:
        return answer(NOT_MEASURED)
    row = next((row for row in rows_of(result) if row.label == aim.row), None)
    got = row.get(aim.quantity) if row else None
    if got is None:
        return answer(NOT_MEASURED, why=f"{aim.experiment} has no such figure")
    if flag_in(object_in(result, "settings"), "tiny"):
        return answer(NOT_MEASURED, got, "a tiny run shows nothing")
    outcome, against, absent = aim.target.judge(got), "", []
    if "|" in aim.quantity.over:
        outcome, against, absent = _against_all(aim, row, row.against(aim.quantity))
        got = row.get(Quantity(aim.quantity.metric, aim.quantity.of, against))
    lacks = lacks_whole(row, aim.quantity)
    if absent and outcome == HELD and not lacks:
        lacks = f"{aim.experiment} has no figure of {', '.join(absent)}"
    if lacks and outcome != MISSED:
        return answer(NOT_MEASURED, got, lacks, against)
    if aim.quantity.points:
        # A share cannot fall by more than there is.
        there = row.figure(aim.quantity.metric, aim.quantity.of)
        if there and 100 * there.median < aim.target.value:
            stalled = 100 * there.median
            why = ("stock did not stall" if stalled < STALLS_NOTICED
                   else f"stock stalled {stalled:.1f} % of the time only")
            other = row.figure(aim.quantity.metric, aim.quantity.over)
            if other and got.high < 0:  # that is no leave to be silent about the other one's
                why += f"; {aim.quantity.over} stalled {100 * other.median:.1f} %"
            return answer(NOT_SHOWN, got, why, against)
    why = ""
    if outcome == NOT_CLEAR:
        why = "one pair has no spread" if got.count < 2 else "the pairs differ"
    return answer(outcome, got, why, against)


def needs_of(aims, rows):
    """What it would take to show what was not shown; targets with the same needs share a line."""
    lines = {}
    for aim, row in zip(aims, rows):
        shown = row.verdict != NOT_SHOWN and (row.verdict != NOT_MEASURED or not row.why)
        if not shown and aim.needs:
            lines.setdefault(aim.needs, []).append(aim.what)
    needs = [f"{'; '.join(what)}: not shown here. It would need {need}."
             for need, what in lines.items()]
    if any(row.verdict == NOT_CLEAR for row in rows):
        needs.append("Not clear: the spread over pairs is on both sides of what was asked. It would "
                     "need more pairs (--pairs), or a machine without neighbours.")
    return needs
