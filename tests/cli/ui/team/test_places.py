"""Places of waiting Jobs come from whichever replica of the job engine plans; others say none."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.ui.team import places as module
from device_plugin.cli.ui.team.places import ASK_SECONDS, MOST_REPLICAS, QueuePlaces
from device_plugin.core.pods import Agent
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Where
from device_plugin.kube.errors import ApiError, UnknownError

Places = Mapping[tuple[str, str], int]


class Replicas(KubeClient):
    """A client that may list the pods of the job engine."""

    def __init__(self, count: int = 2, error: ApiError | None = None) -> None:
        self._count = count
        self._error = error

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        assert (kind.item, where.namespace) == (Agent, "ours")
        assert where.labels.endswith("component=jobs")
        if self._error is not None:
            raise self._error
        running = [Agent(f"jobs-{i}", "n1", f"10.0.0.{i}:9403") for i in range(self._count)]
        return Listed([*running, Agent("jobs-starts", "n1")])


def read(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, str], client: Replicas | None = None
) -> tuple[Places, Sequence[str]]:
    """The places by these answers, and the addresses that were asked."""
    asked: list[str] = []
    found: list[Places] = []

    def answer(address: str) -> str:
        asked.append(address)
        if address not in answers:
            raise TimeoutError("timed out")
        return answers[address]

    monkeypatch.setattr(module, "read_metrics", answer)
    asking = QueuePlaces(client or Replicas(), "ours", found.append, lambda: True)
    assert asking.step() == ASK_SECONDS
    (last,) = found
    return last, asked


def sample(job: str, value: object) -> str:
    return f'vgpu_job_place{{namespace="team",job="{job}"}} {value}\n'


def test_the_replica_that_plans_says_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = read(monkeypatch, {"10.0.0.0:9403": "", "10.0.0.1:9403": sample("a", 1) + sample("b", 2)})
    assert found == {("team", "a"): 1, ("team", "b"): 2}
    assert len(asked) == 2


def test_a_replica_that_does_not_answer_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, {"10.0.0.1:9403": sample("a", 3)})[0] == {("team", "a"): 3}
    assert read(monkeypatch, {})[0] == {}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "0", "-1", "1e300", "none"])
def test_what_is_no_place_is_left_out(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    assert read(monkeypatch, {"10.0.0.0:9403": sample("a", value)})[0] == {}


def test_without_the_list_and_with_too_many_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, {}, Replicas(error=UnknownError("timed out"))) == ({}, [])
    assert len(read(monkeypatch, {}, Replicas(100))[1]) == MOST_REPLICAS
