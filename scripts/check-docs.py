#!/usr/bin/env python3
"""check-docs.py: fails on dead links in the documentation, and on pages that have grown too long.

Checked: relative links in every tracked or new *.md file, the heading behind a #fragment included;
paths of docs/ that other files mention; the length of README.md and of the pages in docs/internals.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# (pages, lines that each may have)
LIMITS = ((re.compile(r"README\.md$"), 170), (re.compile(r"docs/internals/.*\.md$"), 300))
# The end of a link, since its text may begin on the line before.
LINK = re.compile(r"\]\(([^()\s]+)\)|src(?:set)?=\"([^\"]+)\"")
MENTION = re.compile(r"\bdocs/[A-Za-z0-9_/-]+\.(?:md|json)\b")
FENCE = re.compile(r"^ *(```|~~~)")


def files():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in listed.splitlines() if os.path.isfile(os.path.join(ROOT, path))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def prose(text):
    """The numbered lines of a page without its fenced code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """The fragments that the page's headings get, as GitHub makes them."""
    found = set()
    for _, line in prose(text):
        match = re.match(r"#+ +(.*)", line)
        if match:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1].strip()).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            found.add(slug if slug not in found else f"{slug}-1")
    return found


def check_links(page, text):
    for number, line in prose(text):
        for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            link = match[1] or match[2]
            if re.match(r"[a-z+]+:|/", link):
                continue
            path, _, fragment = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(ROOT, target)):
                yield f"{page}:{number}: {link} leads nowhere"
            elif fragment and target.endswith(".md") and fragment not in anchors(read(target)):
                yield f"{page}:{number}: {target} has no heading for #{fragment}"


def check_mentions(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for name in MENTION.findall(line):
            if not os.path.exists(os.path.join(ROOT, name)):
                yield f"{path}:{number}: there is no {name}"


def main():
    try:
        paths = files()
    except (OSError, subprocess.CalledProcessError):
        print("check-docs: this is no git checkout; nothing is checked", file=sys.stderr)
        return 77
    problems = []
    for path in paths:
        if path.startswith(("tests/fuzz/corpus/", "docs/results-")):
            continue
        text = read(path)
        problems += check_mentions(path, text)
        if not path.endswith(".md"):
            continue
        problems += check_links(path, text)
        for pattern, limit in LIMITS:
            lines = len(text.splitlines())
            if pattern.fullmatch(path) and lines > limit:
                problems.append(f"{path}: {lines} lines, the limit is {limit}")
    for line in problems:
        print(f"check-docs: {line}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
