"""A pytest plug-in for the tests of Redis client libraries: a test that meets a command which the
server is known not to serve (unserved_commands.txt) is skipped. Any other failure counts, also that
of a command which the server does not know any more."""

import pathlib
import re

import pytest

HERE = pathlib.Path(__file__).parent
UNSERVED = {
    line.strip()
    for line in (HERE / "unserved_commands.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
}
UNKNOWN = re.compile(r"unknown (?:sub)?command '([^']*)'", re.IGNORECASE)
OTHER_CHANNEL = "publish/subscribe is not served"


def unserved(error):
    """The command for want of which the server has refused, or None."""
    while error is not None:
        if type(error).__name__ == "ResponseError":
            if OTHER_CHANNEL in str(error):
                return "SUBSCRIBE"
            found = UNKNOWN.search(str(error))
            if found:
                name = found.group(1).upper()
                return name if name in UNSERVED else None
        hides = error.__suppress_context__
        error = error.__cause__ or (None if hides else error.__context__)
        if not hasattr(error, "__suppress_context__"):
            return None
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if not report.failed or call.excinfo is None:
        return
    # An assertion counts, whatever was refused before it.
    if isinstance(call.excinfo.value, AssertionError):
        return
    name = unserved(call.excinfo.value)
    if name is not None:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"not served: {name}")
