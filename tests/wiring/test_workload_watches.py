"""The watches of kinds that come and go, against the API server stand-in."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import CARDS
from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    MPI_JOB_V1,
    PYTORCH_JOB,
    WORKLOAD_KINDS,
    WorkloadKind,
)
from device_plugin.kube.api import WORKLOADS
from device_plugin.kube.errors import ForbiddenError
from device_plugin.wiring import jobs, workload_watches
from device_plugin.wiring.settings import JobsSettings, KubeSettings
from device_plugin.wiring.threads import Threads
from device_plugin.wiring.workload_watches import LATER_SECONDS, LOOK_SECONDS, WorkloadWatches
from hack.embedded.apiserver import EmbeddedApiServer, resources
from hack.embedded.cluster import AGENT_USER
from tests.adapters.kube.conftest import annotate, node
from tests.builders.cards import inventory
from tests.builders.workloads import body
from tests.deadline import eventually
from tests.wiring.conftest import SECONDS, Get, Running


class Seen:
    """The names of the objects that are known of each kind."""

    def __init__(self) -> None:
        self.names: dict[WorkloadKind, set[str]] = {}

    def of(self, kind: WorkloadKind) -> Sequence[Any]:
        seen = self.names.setdefault(kind, set())

        class News:
            def sync(self, items: Sequence[Job]) -> None:
                seen.clear()
                seen.update(item.name for item in items)

            def see(self, item: Job) -> None:
                seen.add(item.name)

            def forget(self, item: Job) -> None:
                seen.discard(item.name)

        return (News(),)


@pytest.fixture
def client(api: EmbeddedApiServer) -> Iterator[KubeClient]:
    with closing(KubeClient(Endpoint(api.url, lambda: "Bearer system:admin"), "test")) as made:
        yield made


@pytest.fixture
def watches(client: KubeClient) -> Iterator[tuple[WorkloadWatches, Seen, Threads]]:
    stop, seen = threading.Event(), Seen()
    threads = Threads(stop)
    made = WorkloadWatches(client, threads, stop, seen.of)
    yield made, seen, threads
    stop.set()
    for watch in made.all():
        watch.interrupt()
    threads.join()
    assert not threads.failed


Made = tuple[WorkloadWatches, Seen, Threads]


def uninstall(monkeypatch: pytest.MonkeyPatch, *kinds: WorkloadKind) -> None:
    """Take kinds away from the API server, as without their CRD."""
    gone = {(kind.group, kind.version, kind.plural) for kind in kinds}
    paths = {key: value for key, value in resources._BY_PATH.items() if key not in gone}
    monkeypatch.setattr(resources, "_BY_PATH", paths)
    served = tuple(
        each for each in resources.RESOURCES if (each.group, each.version, each.plural) not in gone
    )
    monkeypatch.setattr(resources, "RESOURCES", served)


def without_watches(api: EmbeddedApiServer) -> bool:
    """End all watches that are open now: one may be opened a moment later."""
    api.store.end_watches()
    return True


def test_installed_kinds_are_followed_once_each(watches: Made, client: KubeClient) -> None:
    made, seen, _ = watches
    assert "were not listed yet" in made.why_not_synced()
    made.step()
    made.step()
    client.create(WORKLOADS[JOB_SET].json, body(JOB_SET, "a"), "default")
    client.create(WORKLOADS[JOB_SET].json, body(JOB_SET, "other", labels={}), "default")
    assert eventually(lambda: seen.names.get(JOB_SET) == {"a"}, SECONDS)
    assert eventually(lambda: not made.why_not_synced(), SECONDS)
    assert len(made.all()) == len(WORKLOAD_KINDS) - 1
    assert MPI_JOB in seen.names
    assert MPI_JOB_V1 not in seen.names, "of two versions of one kind the first is followed"


def test_a_kind_that_is_not_installed_costs_nothing_and_is_found_when_it_comes(
    watches: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen, _ = watches
    with monkeypatch.context() as without:
        uninstall(without, *WORKLOAD_KINDS)
        assert made.step() == workload_watches.LOOK_SECONDS
        assert (made.all(), made.why_not_synced(), seen.names) == ([], "", {})
    made.step()
    assert eventually(lambda: JOB_SET in seen.names, SECONDS)


def test_the_engine_leaves_a_kind_that_comes_alone_until_the_allocators_have_found_it(
    client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, seen = threading.Event(), Seen()
    threads = Threads(stop)
    made = WorkloadWatches(client, threads, stop, seen.of, later=LATER_SECONDS)
    with monkeypatch.context() as without:
        uninstall(without, JOB_SET)
        made.step()
        assert eventually(lambda: PYTORCH_JOB in seen.names, SECONDS), (
            "kinds of the first look are followed at once"
        )
    waited = 0.0
    followed = len(made.all())
    while len(made.all()) == followed:
        waited += made.step()
    assert waited == LATER_SECONDS + LOOK_SECONDS
    assert eventually(lambda: JOB_SET in seen.names, SECONDS)
    stop.set()
    for watch in made.all():
        watch.interrupt()
    threads.join()


def test_a_kind_that_goes_leaves_no_objects_and_may_come_again(
    watches: Made, client: KubeClient, api: EmbeddedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen, _ = watches
    client.create(WORKLOADS[JOB_SET].json, body(JOB_SET, "a"), "default")
    made.step()
    assert eventually(lambda: seen.names.get(JOB_SET) == {"a"}, SECONDS)
    with monkeypatch.context() as without:
        uninstall(without, JOB_SET)
        assert eventually(lambda: without_watches(api) and not seen.names[JOB_SET], SECONDS)
        made.step()
    assert eventually(lambda: made.step() > 0 and seen.names[JOB_SET] == {"a"}, SECONDS)


def test_a_kind_that_may_not_be_read_is_left_alone_for_a_while_and_keeps_what_is_known(
    watches: Made, client: KubeClient, api: EmbeddedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen, _ = watches
    client.create(WORKLOADS[JOB_SET].json, body(JOB_SET, "a"), "default")
    made.step()
    assert eventually(lambda: seen.names.get(JOB_SET) == {"a"}, SECONDS)
    watch = KubeClient.watch

    def refused(self: KubeClient, kind: Any, *more: Any) -> Any:
        if kind is WORKLOADS[JOB_SET]:
            raise ForbiddenError("no right", 403, "Forbidden")
        return watch(self, kind, *more)

    with monkeypatch.context() as without:
        without.setattr(KubeClient, "watch", refused)
        assert eventually(
            lambda: without_watches(api) and len(made.all()) == len(WORKLOAD_KINDS) - 2, SECONDS
        )
        made.step()
        assert len(made.all()) == len(WORKLOAD_KINDS) - 2
    assert seen.names[JOB_SET] == {"a"}
    assert not made.why_not_synced()
    for _ in range(int(workload_watches.FORBIDDEN_SECONDS / workload_watches.LOOK_SECONDS)):
        made.step()
    assert len(made.all()) == len(WORKLOAD_KINDS) - 1


def test_the_engine_starts_a_job_set_by_its_field_and_nothing_else(
    api: EmbeddedApiServer, client: KubeClient, running: Running, get: Get, tmp_path: Any
) -> None:
    token = tmp_path / "token"
    token.write_text("system:serviceaccount:vgpu-system:vgpu-jobs")
    settings = JobsSettings(
        pod_name="vgpu-jobs-0", explain_listen="127.0.0.1:0", http_listen="127.0.0.1:0",
        kube=KubeSettings(server=api.url, token_file=str(token)),
    )  # fmt: skip
    node(client, "n1")
    with closing(KubeClient(Endpoint(api.url, lambda: f"Bearer {AGENT_USER}@n1"), "test")) as agent:
        annotate(agent, "n1", **{CARDS: inventory("n1", 4).encode()})
    client.create(WORKLOADS[JOB_SET].json, body(JOB_SET, "a", ((2, 1), (1, 2))), "default")
    wide = body(JOB_SET, "wide", ((5, 1),))
    client.create(WORKLOADS[JOB_SET].json, wide, "default")
    with running(lambda stop: jobs.run(settings, stop)) as listening:

        def suspended(name: str) -> object:
            found = client.list(WORKLOADS[JOB_SET].json).items
            return next(each["spec"]["suspend"] for each in found if each["metadata"]["name"] == name)

        assert eventually(lambda: suspended("a") is False, SECONDS), get(f"{listening['explain']}/explain")
        assert suspended("wide") is True
        text = get(f"{listening['explain']}/explain?job=default/jobset/wide")[1]
        assert "default/jobset/wide" in text
    written = {
        path for user, _, path in api.write_requests if user.endswith("vgpu-jobs") and "jobsets" in path
    }
    assert written == {"/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/a"}
