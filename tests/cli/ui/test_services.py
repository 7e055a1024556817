"""What the services are asked, and what is shown where they cannot be."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import pytest

from device_plugin.cli.access.engine import EngineError, NoEngineError
from device_plugin.cli.ui import services
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.services import JobPlans, PodWhy
from tests.cli.fleet import Fleet
from tests.cli.reading.test_reader import client

Told = list[tuple[Sequence[Mapping[str, Any]], str]]


@pytest.mark.parametrize(
    ("answer", "told", "again"),
    [
        ([{"name": "train"}], "From the job engine", services.ASK_SECONDS),
        (NoEngineError("none"), "", services.AGAIN_SECONDS),
        (EngineError("bind the Role"), "are not known: bind the Role", services.AGAIN_SECONDS),
    ],
)
def test_the_plans_for_jobs_or_why_there_are_none(answer: Any, told: str, again: float) -> None:
    heard: Told = []

    def ask() -> Sequence[Mapping[str, Any]]:
        if isinstance(answer, Exception):
            raise answer
        found: Sequence[Mapping[str, Any]] = answer
        return found

    plans = JobPlans(ask, lambda jobs, source: heard.append((jobs, source)), lambda: True)
    assert plans.step() == again
    ((jobs, source),) = heard
    assert (len(jobs), told in source) == (isinstance(answer, list), True)


ARGS = argparse.Namespace(
    kubeconfig="/none", context=None, as_user=None, as_group=None, allocator_namespace="none"
)


def test_the_answer_about_a_pod_is_that_of_vgpu_why(fleet: Fleet) -> None:
    fleet.node("n1", 1)
    fleet.pod("big", 17)
    with closing(client(fleet)) as api:
        entries = PageEntries()
        entries.put("waiting", {"default/big": 1, "default/gone": 1})
        pods = PodWhy(api, ARGS, entries)
        found = pods.answer({"pod": "default/big"})
        assert isinstance(found, dict)
        assert "default/big asks for hygon.com/dcu-mem: 17" in found["paragraph"]
        assert "the allocator's reservations are not known" in found["paragraph"]
        for name in ("default/gone", "default/other", "", "default/.."):
            with pytest.raises(LookupError):
                pods.answer({"pod": name})
