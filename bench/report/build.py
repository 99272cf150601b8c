"""Puts a report together from the results of a directory."""
import json

import changes
import graph
import kv
import ops
import paper_pages
import remote
import service_targets
import soak
import other_pages
import targets
from figures import STOCK, flag_in, list_in, number_in, object_in, rows_of, text_in
from model import Page, Report
from overview import date_of, facts, highlights, revision_of, warnings

# A service that comes adds the page of its benchmark here, by the name in its JSON file.
BENCHMARK_PAGES = {"blocks": remote.fill, "serve": remote.fill, "director": remote.fill,
                   "kv": kv.fill, "ops": ops.fill, "graph": graph.fill,
                   "graph-rivals": graph.fill_rivals, "soak": soak.fill, "paper": paper_pages.fill}


def _settings(result):
    """What a reader may ask for: not what follows from the rest, which is long and in the file."""
    rows = []
    for part in ("machine", "settings"):
        for key, value in object_in(result, part).items():
            if value != "" and not isinstance(value, (dict, list)):
                rows.append((key, value if isinstance(value, str) else json.dumps(value)))
    for key in ("page_cache", "pulse_version", "revision", "finished"):
        if text_in(result, key):
            rows.append((key, text_in(result, key).replace("-dirty", " with local changes")))
    return rows


def _how(result):
    settings = object_in(result, "settings")
    text = f" Measured by PulseDB {revision_of(result)}"
    text += f", {date_of(result)}" if date_of(result) else ""
    if "pairs" in settings:
        pairs, warm_ups = number_in(settings, "pairs"), number_in(settings, "warm_ups")
        text += (f"; {pairs:g} pair{'' if pairs == 1 else 's'} after {warm_ups:g} "
                 f"warm-up{'' if warm_ups == 1 else 's'}; host on CPU "
                 f"{text_in(settings, 'host_cpus', '?')}, agent on CPU "
                 f"{text_in(settings, 'agent_cpus', '?')}")
    return text + "."


def page_of(entry, command):
    figures = ", ".join(f for f in list_in(entry.paper, "figures") if isinstance(f, str))
    page = Page(entry.name, entry.title, figures)
    if entry.result is None:
        page.done = False
        page.statement = f"No result: {entry.problem}." if entry.problem else "Not run."
        page.command = entry.command or (
            f"{command} --only {entry.name}{' --redo' if entry.problem else ''}")
        return page
    fill = BENCHMARK_PAGES.get(text_in(entry.result, "benchmark"), other_pages.fill)
    fill(entry, page)
    page.statement += _how(entry.result)
    settings = object_in(entry.result, "settings")
    for text, prefix in ((text_in(entry.paper, "differs"), "Other than in the paper: "),
                         (text_in(settings, "uri_options"), "PulseDB ran with further options: "),
                         (text_in(settings, "environment_options"),
                          "PULSE_OPTIONS was set and held for PulseDB: ")):
        if text:
            page.notes.append(f"{prefix}{text}.")
    if text_in(entry.result, "page_cache") == "fadvise":
        page.notes.append("The page cache could only be emptied file by file, which the kernel may "
                          "ignore.")
    page.settings = _settings(entry.result)
    return page


def _page_or_failure(report, entry, command):
    failure = Page(entry.name, entry.title, done=False)
    page = report.attempt(entry.path, lambda: page_of(entry, command), failure)
    if page is failure:
        page.statement = f"This page could not be made of {report.failed[-1]}."
    return page


def _stall_note(results):
    """Stock that keeps up leaves nothing to gain by faster compactions."""
    tails = results.of("tails")
    if tails is None or flag_in(object_in(tails, "settings"), "tiny"):
        return []
    stalled = [row.figure("stall_share", STOCK) for row in rows_of(tails)]
    return [f"Stock RocksDB stalled for {100 * share.median:.1f} % of the run here, and for 58 % in "
            "the paper: its writers waited for nothing that faster compactions could shorten. Targets "
            "against it are judged all the same." for share in stalled if share
            and share.median < 0.01]


def _add_targets(report, results):
    aims = targets.aims_in(results.catalogue)
    report.targets = [targets.judge(aim, results.of(aim.experiment)) for aim in aims]
    report.needs = targets.needs_of(aims, report.targets) + _stall_note(results)
    for entry in results.done:
        report.targets += report.attempt(f"targets of {entry.path}",
                                         lambda e=entry: list(service_targets.rows(e)), [])
    counts = [sum(row.verdict == verdict for row in report.targets)
              for verdict in (targets.HELD, targets.MISSED, targets.NOT_CLEAR)]
    report.targets_summary = (
        f"{counts[0]} held, {counts[1]} missed, {counts[2]} not clear, "
        f"{len(report.targets) - sum(counts)} not judged. Held: in every pair, against each that is "
        "compared with; missed: in none. Where a ratio is just what is asked, two pairs are on one "
        "side of it by chance every other time, three every fourth. Of PulseDB's lines, pulse merges "
        "on the host (placement=split), and adaptive chooses where.")


def build(results, earlier=None):
    report = Report("PulseDB: the papers' experiments")
    report.warnings = warnings(results)
    report.warnings += [entry.problem + "." for entry in results.entries if entry.problem]
    if not results.catalogue:
        report.warnings.append(
            f"{results.folder} has no experiments.json, so targets and experiments that have not run "
            f"are not listed; pulse bench paper --report-only --out {results.folder} writes it.")
    report.lead = ("Variants run side by side, once in each round, another one first in each; a ratio "
                   "is taken within the round, and tables show the median over rounds, with the least "
                   "and the most. Absolute figures mean little on another machine. The agent's CPU "
                   "stands for the DPU.")
    report.facts = facts(results)
    report.highlights = report.attempt("highlights", lambda: highlights(results), [])
    # What has not run should be like what has.
    like = next((object_in(e.result, "settings") for e in results.done
                 if text_in(e.result, "experiment")), object_in(results.catalogue, "settings"))
    command = paper_pages.command_for(results.folder, like) + text_in(results.catalogue, "flags")
    report.pages = [_page_or_failure(report, entry, command) for entry in results.entries]
    if earlier is not None:
        report.pages[:0] = report.attempt(f"changes against {earlier.folder}",
                                          lambda: [changes.page(earlier, results)], [])
    _add_targets(report, results)
    report.warnings += [f"Not made: {failure}." for failure in report.failed]
    return report
