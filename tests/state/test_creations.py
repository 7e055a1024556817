"""Why pods of Jobs are not created, from the events of their controller."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.batch import FailedCreation
from device_plugin.core.contract.resize import MAX_REFUSAL, api_time
from device_plugin.kube.api import JOBS, Kind, Listed, Where
from device_plugin.kube.errors import UnknownError
from device_plugin.state.creations import (
    FIRST_WAIT,
    LACKING_SECONDS,
    LONGEST_WAIT,
    MOST_READS,
    SKEW_SECONDS,
    FailedCreations,
    refusal,
)
from device_plugin.state.managed import Managed
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.jobs import JobController
from tests.builders import objects
from tests.builders.batch_jobs import ended, job, managed, resize, waiting
from tests.deadline import eventually

NOW = 1_800_000_000.0
QUOTAS: Kind[dict[str, Any]] = Kind("", "v1", "resourcequotas", "ResourceQuota", dict)
QUOTA = "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2"


class Events:
    """An API server that has events."""

    def __init__(self) -> None:
        self.now = 0.0
        self.found: list[FailedCreation] = []
        self.asked: list[Where] = []
        self.away = False
        self.creations = FailedCreations(self, lambda: self.now, lambda: NOW + self.now)  # type: ignore[arg-type]

    def list(self, _: object, where: Where) -> Listed[FailedCreation]:
        self.asked.append(where)
        if self.away:
            raise UnknownError("no answer")
        return Listed(self.found)

    def after(self, seconds: float, *jobs: Managed) -> dict[str, str]:
        """What is known of these Jobs when so many seconds more have passed."""
        self.now += seconds
        return {key[1]: why for key, why in self.creations.look(jobs).items()}


def lacking(name: str = "a") -> Managed:
    """A Job that has two of its four pods, since a change at NOW."""
    return managed(job(name, 4, active=2), record=resize(2, 4, asked=NOW, applied=True))


def said(message: str, seconds: float = 0.0) -> FailedCreation:
    return FailedCreation(f"Error creating: {message}", api_time(NOW + seconds))


def test_events_are_read_only_while_a_job_lacks_pods() -> None:
    events = Events()
    events.found = [said(f'pods "a-2-x" is forbidden: {QUOTA}')]
    assert events.after(0, lacking()) == {}
    assert (events.asked, events.creations.next) == ([], LACKING_SECONDS)
    assert events.after(LACKING_SECONDS, lacking()) == {"a": QUOTA}
    assert events.asked == [Where("default", fields="involvedObject.uid=uid-a,reason=FailedCreate")]
    assert events.after(1, lacking()) == {"a": QUOTA}, "it is still so"
    assert events.after(1, managed(job("a", 4))) == {}
    assert len(events.asked) == 1


def test_they_are_read_later_and_later() -> None:
    events = Events()
    for second in range(2000):
        events.now = float(second)
        events.creations.look([lacking()])
        assert events.creations.next <= second + LONGEST_WAIT
    assert 8 <= len(events.asked) <= 14
    assert FIRST_WAIT < LONGEST_WAIT


def test_a_few_are_read_at_a_time_and_the_others_soon() -> None:
    events = Events()
    jobs = [lacking(f"job{number}") for number in range(3 * MOST_READS)]
    events.after(0, *jobs)
    events.after(LACKING_SECONDS, *jobs)
    assert len(events.asked) == MOST_READS
    assert events.creations.next <= events.now
    events.after(0.25, *jobs)
    events.after(0.25, *jobs)
    assert len({where.fields for where in events.asked}) == len(jobs)


def test_what_was_said_before_the_job_lacked_pods_is_not_news() -> None:
    events = Events()
    events.found = [said("old", -SKEW_SECONDS - 1)]
    events.after(0, lacking())
    assert events.after(LACKING_SECONDS, lacking()) == {}
    events.found = [said("newest", 2), said("old", -99), said("new", 1), FailedCreation("no time", "soon")]
    assert events.after(FIRST_WAIT, lacking()) == {"a": "newest"}
    again = replace(lacking(), record=resize(2, 4, gen=2, asked=NOW + 900, applied=True))
    assert events.after(0, again) == {}, "another change is another try"
    events.after(0, managed(job("a", 4)))
    events.after(1800, lacking())
    assert events.after(LACKING_SECONDS, lacking()) == {}, "a pod that failed is about to be replaced"


def test_an_api_server_that_is_away_is_asked_again() -> None:
    events = Events()
    events.away, events.found = True, [said("no")]
    events.after(0, lacking())
    assert events.after(LACKING_SECONDS, lacking()) == {}
    events.away = False
    assert events.after(FIRST_WAIT, lacking()) == {"a": "no"}


@pytest.mark.parametrize(
    "seen",
    [
        managed(waiting("a", 4)),
        managed(ended(job("a", 4))),
        managed(job("a", 4, active=3, terminating=1)),
        managed(job("a", 4, active=2), pods=4),
        managed(job("a", 4, active=1, completions=16, succeeded=15)),
        managed(job("a", 4, deleting=True, active=0)),
    ],
)
def test_a_job_that_waits_for_nothing_lacks_nothing(seen: Managed) -> None:
    assert not seen.lacks


def test_a_message_is_cut_and_holds_no_control_characters() -> None:
    assert refusal("Error creating: a\nb" + "x" * 9999) == "a b" + "x" * (MAX_REFUSAL - 3)
    assert refusal("") == "no reason was given"


@pytest.fixture
def server() -> Iterator[EmbeddedApiServer]:
    server = EmbeddedApiServer(bookmark_seconds=0.1)
    server.start()
    controller = JobController(server.url)
    controller.start()
    yield server
    controller.stop()
    server.stop()


def test_the_events_of_a_job_controller_name_the_quota(server: EmbeddedApiServer) -> None:
    api = KubeClient(Endpoint(server.url, lambda: None), "test", timeout=60.0)
    api.create(
        QUOTAS, {"metadata": {"name": "team"}, "spec": {"hard": {"requests.hygon.com/dcu": "2"}}}, "default"
    )
    body = objects.job("a", 3, pod={"containers": [objects.container(limits={"hygon.com/dcu": 1})]})
    made = api.create(JOBS, body, "default")
    now = 0.0
    creations = FailedCreations(api, lambda: now, time.time)

    def look() -> str:
        nonlocal now
        seen = Managed(job=api.get(JOBS, made), spec=managed(job("a", 3)).spec)
        found = creations.look([seen]).get(seen.key, "")
        now += FIRST_WAIT
        return found

    assert eventually(look, 60).startswith("exceeded quota: team, requested: requests.hygon.com/dcu=1")
    api.close()
