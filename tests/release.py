"""Which Kubernetes the tests run on: an older one, where $VGPU_KUBERNETES says so (hack/nightly)."""

import os

import pytest

from hack.testbed.programs import RELEASE

# Before 1.36 there is no MutatingAdmissionPolicy: people name the scheduler themselves.
OLDER = bool(os.environ.get(RELEASE))
NAMED = {"schedulerName": "vgpu-scheduler"} if OLDER else {}


def before(release: str) -> bool:
    """True if the tests run on a Kubernetes older than `release`, such as 1.35."""
    return OLDER and _numbers(os.environ[RELEASE]) < _numbers(release)


def since(release: str, what: str) -> pytest.MarkDecorator:
    """A mark that skips a test on a Kubernetes older than `release`, which lacks `what`."""
    return pytest.mark.skipif(before(release), reason=f"{what} came with Kubernetes {release}")


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
