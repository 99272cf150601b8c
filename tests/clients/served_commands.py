"""A pytest plug-in for the tests of Redis client libraries: what the server says that it does not
know was not tested, and counts as skipped; anything else counts."""

import pytest

UNKNOWN = ("unknown command", "unknown subcommand")


def is_unknown(error):
    """Whether an exception, or one that it came from, is the server's "unknown command"."""
    while error is not None:
        if any(text in str(error).lower() for text in UNKNOWN):
            return True
        error = error.__cause__ or error.__context__
    return False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed and call.excinfo is not None and is_unknown(call.excinfo.value):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"not served: {call.excinfo.value}")
