"""Which Kubernetes the tests run on: an older one, where $VGPU_KUBERNETES says so (hack/nightly)."""

import os

import pytest

from hack.testbed.programs import RELEASE

# Before 1.36 there is no MutatingAdmissionPolicy: people name the scheduler themselves.
OLDER = bool(os.environ.get(RELEASE))
NAMED = {"schedulerName": "vgpu-scheduler"} if OLDER else {}


def since(release: str, what: str) -> pytest.MarkDecorator:
    """Skip a test on older releases, which lack what it is about."""
    number = tuple(map(int, release.split(".")))
    found = tuple(map(int, os.environ.get(RELEASE, "").split("."))) if OLDER else number
    return pytest.mark.skipif(found < number, reason=f"{what} came with Kubernetes {release}")
