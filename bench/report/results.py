"""The result files of a directory: each one JSON, left by a benchmark; and experiments.json, in which
`pulse bench paper` lists its experiments and targets. A file that is no result is named with the
remedy; none is dropped in silence."""
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from figures import flag_in, list_in, object_in, text_in

CATALOGUE = "experiments.json"


class ReportError(Exception):
    """What is wrong and what to do about it."""


@dataclass
class Entry:
    """What there is of one experiment or benchmark."""
    name: str
    title: str = ""
    paper: dict = field(default_factory=dict)
    result: object = None  # None: not run, or `problem` says why there is none
    problem: str = ""
    command: str = ""  # that makes it
    path: str = ""


@dataclass
class Results:
    folder: str
    catalogue: dict
    entries: list

    def of(self, name):
        return next((e.result for e in self.entries if e.name == name and e.result), None)

    @property
    def done(self):
        return [entry for entry in self.entries if entry.result is not None]


# Keys as results of earlier releases have them.
FORMER_KEYS = {"opponent": "variant", "opponents": "variants"}


def _clean(value):
    """Control characters and halves of characters, which no page takes, become U+FFFD; former keys
    become those of today."""
    if isinstance(value, str):
        return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {FORMER_KEYS.get(key, _clean(key)): _clean(item) for key, item in value.items()}
    return value


def read_json(path):
    """ReportError, with the remedy, for a file that is missing or no JSON object."""
    try:
        value = _clean(json.loads(Path(path).read_text(encoding="utf-8", errors="replace")))
    except FileNotFoundError as error:
        raise ReportError(f"{path} is missing; run the benchmark that writes it") from error
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}; make it readable") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is no JSON ({error}); remove it, or run its benchmark "
                          "again") from error
    if not isinstance(value, dict):
        raise ReportError(f"{path} is no result: it has no JSON object; remove it, or run its "
                          "benchmark again")
    return value


def _read_entry(entry, path, is_result):
    entry.path = str(path)
    if not path.exists():
        return
    try:
        result = read_json(path)
    except ReportError as error:
        entry.problem = str(error)
        return
    entry.problem = is_result(result)
    if not entry.problem:
        entry.result = result


def _paper_check(path, name):
    def check(result):
        if text_in(result, "experiment") != name or "rows" not in result:
            return f"{path} is no result of {name}"
        if result["rows"] is None or result["rows"] == []:
            return f"{path} has no rows"
        return ""
    return check


def _benchmark_check(path, benchmark):
    def check(result):
        if text_in(result, "benchmark") != benchmark or not object_in(result, "parts"):
            return f"{path} is no result of pulse bench {benchmark}"
        return ""
    return check


def load(folder, remote):
    """`remote` lists the entries of benchmarks that have a page of their own: in this order, whether
    they have run or not, between the experiments of the paper and all other files."""
    folder = Path(folder)
    catalogue = read_json(folder / CATALOGUE) if (folder / CATALOGUE).exists() else {}
    entries, taken = [], {CATALOGUE}
    for listed in list_in(catalogue, "experiments"):
        name = text_in(listed, "name")
        entry = Entry(name, text_in(listed, "title"), object_in(listed, "paper"))
        path = folder / f"{name}.json"
        taken.add(path.name)
        _read_entry(entry, path, _paper_check(path, name))
        # Who asks for none of the optional ones need not hear of them.
        if entry.result is not None or entry.problem or not flag_in(listed, "optional"):
            entries.append(entry)
    for entry in remote:
        benchmark = entry.name.removeprefix("remote-")
        path = folder / f"{benchmark}.json"
        taken.add(path.name)
        entry.command = f"pulse bench {benchmark} --json {path}"
        _read_entry(entry, path, _benchmark_check(path, benchmark))
        entries.append(entry)
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        if path.name in taken:
            continue
        entry = Entry(path.stem)
        _read_entry(entry, path, lambda result: "")
        result = entry.result or {}
        entry.title = text_in(result, "title") or text_in(result, "benchmark") or path.stem
        entry.paper = object_in(result, "paper")
        entries.append(entry)
    return Results(str(folder), catalogue, entries)
