"""What a test needs of the machine it runs on."""

import os

import pytest


def require(condition: object, reason: str) -> None:
    """Skip with `reason`, which names the command that would help, unless `condition`; in CI, fail instead."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
