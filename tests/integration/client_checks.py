"""What the tests of Redis's Python client have in common."""

import redis


def refused(call, text):
    try:
        call()
    except redis.RedisError as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
        return
    raise AssertionError(f"no error that says {text!r}")
