"""Our own port to the API server on objects of a kind that no controller touches: what services to come build on."""

import itertools
import os
import threading
from collections.abc import Iterator, Sequence

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint, from_kubeconfig
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.kube.api import JOBS, PODS, Change, Metadata, Ref, Where
from device_plugin.kube.errors import ApiError, ConflictError, GoneError
from device_plugin.kube.leases import LEASES, Candidate, Election
from tests.builders.objects import job
from tests.contract.cluster import Cluster
from tests.deadline import until

KUBECONFIG = os.environ.get("VGPU_CONTRACT_KUBECONFIG", "")


@pytest.fixture
def api(cluster: Cluster) -> Iterator[KubeClient]:
    token = cluster.identities["admin"].get("Authorization")
    endpoint = (
        from_kubeconfig(KUBECONFIG) if KUBECONFIG else Endpoint(f"http://{cluster.address}", lambda: token)
    )
    client = KubeClient(endpoint, "contract", timeout=30.0)
    yield client
    client.close()


@pytest.fixture
def lease(api: KubeClient, name: str) -> Iterator[Ref]:
    meta = {
        "name": name,
        "labels": {"vgpu.io/queue": name, "other": "x"},
        "annotations": {"vgpu.io/cordoned": "{}"},
    }
    api.create(LEASES, {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": meta}, "default")
    made = api.get(LEASES.metadata, Ref(name, "default"))
    yield Ref(name, "default", made.uid)
    api.delete(LEASES, Ref(name, "default"))


def test_metadata_are_read_alone_by_label_and_by_field(api: KubeClient, lease: Ref) -> None:
    for where in (
        Where("default", labels=f"vgpu.io/queue={lease.name}"),
        Where(fields=f"metadata.name={lease.name}"),
    ):
        (found,) = api.list(LEASES.metadata, where).items
        assert (found.namespace, found.name, found.uid) == ("default", lease.name, lease.uid)
        assert (found.labels, found.annotations) == (
            {"vgpu.io/queue": lease.name},
            {"vgpu.io/cordoned": "{}"},
        )
        assert found.version
        assert not found.deleting


def test_metadata_are_watched(api: KubeClient, lease: Ref) -> None:
    changed, stop, listed = threading.Event(), threading.Event(), threading.Event()
    seen: list[tuple[Change, Metadata]] = []

    def on_sync(items: Sequence[Metadata]) -> None:
        assert [item.name for item in items] == [lease.name]
        listed.set()

    def on_change(change: Change, item: Metadata) -> None:
        seen.append((change, item))
        changed.set()

    watch = ListWatch(api, LEASES.metadata, Where("default", labels=f"vgpu.io/queue={lease.name}"))
    thread = threading.Thread(target=watch.run, args=(on_sync, on_change, stop))
    thread.start()
    assert listed.wait(30)
    api.patch(LEASES, lease, {"metadata": {"annotations": {"vgpu.io/cordoned": "{1}"}}})
    assert changed.wait(30)
    stop.set()
    watch.interrupt()
    thread.join(30)
    ((change, item),) = seen
    assert (change, item.annotations) == (Change.MODIFIED, {"vgpu.io/cordoned": "{1}"})


def test_a_patch_holds_to_the_version_and_the_uid_that_it_names(api: KubeClient, lease: Ref) -> None:
    before = api.get(LEASES.metadata, lease).version
    change = {"metadata": {"resourceVersion": before, "annotations": {"vgpu.io/cordoned": "a"}}}
    assert api.patch(LEASES.metadata, lease, change).annotations == {"vgpu.io/cordoned": "a"}
    with pytest.raises(ConflictError):
        api.patch(LEASES, lease, change)
    with pytest.raises(ApiError):
        api.patch(LEASES, Ref(lease.name, "default", "another"), {"metadata": {"annotations": {"a": "b"}}})
    assert api.get(LEASES.metadata, lease).annotations == {"vgpu.io/cordoned": "a"}


def test_only_the_object_of_this_uid_is_deleted(api: KubeClient, lease: Ref) -> None:
    with pytest.raises(GoneError):
        api.delete(LEASES, Ref(lease.name, "default", "another"))
    assert api.get(LEASES.metadata, lease).uid == lease.uid
    with pytest.raises(ConflictError):
        api.create(LEASES, {"metadata": {"name": lease.name}}, "default")


def test_with_a_job_its_pods_are_deleted(api: KubeClient, name: str) -> None:
    made = api.create(JOBS, job(name, 1, pod={"schedulerName": "nobody"}), "default")
    mine = Where("default", labels=f"job-name={name}")
    until(lambda: api.list(PODS, mine).items, "a pod")
    (pod,) = api.list(PODS, mine).items
    assert (pod.owner, pod.owner_name, pod.owner_uid, pod.index) == ("Job", name, made.uid, 0)
    until(lambda: api.get(JOBS, made).active == 1, "active")
    api.delete(JOBS, made)
    until(lambda: not api.list(PODS, mine).items, "no pods")


def test_one_of_two_candidates_holds_a_lease(api: KubeClient, name: str) -> None:
    of, times = Ref(name, "default"), (f"2026-11-21T08:00:00.{turn:06}Z" for turn in itertools.count())
    now = [0.0]
    one, two = (
        Candidate(api, of, Election(identity), lambda: now[0], lambda: next(times))
        for identity in ("one", "two")
    )
    assert (one.attempt(), two.attempt(), one.attempt()) == (True, False, True)
    assert (one.leads(), two.leads()) == (True, False)
    assert not two.attempt()
    now[0] = 15.1
    assert not one.leads(), "it was not renewed"
    assert two.attempt()
    assert (two.leads(), one.attempt()) == (True, False)
    two.release()
    assert one.attempt()
    found = api.get(LEASES, of)
    assert (found.holder, found.transitions) == ("one", 2)
    api.delete(LEASES, of)
