"""What may be asked, and in which kinds of pods; what may not is refused with a message that helps."""

from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.slices import check_disjoint, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, deployment, job, pod, slice_of, slice_pod

MEM, CORES, WHOLE = "hygon.com/dcu-mem", "hygon.com/dcu-cores", "hygon.com/dcu"


def asking(**limits: str) -> dict[str, Any]:
    names = {"mem": MEM, "cores": CORES, "whole": WHOLE}
    return pod("bad", container(resources={"limits": {names[key]: value for key, value in limits.items()}}))


BAD_REQUESTS = (
    (asking(mem="0"), "hygon.com/dcu-mem is 0: write a whole number of at least 1"),
    (asking(mem="-1"), "must be greater than or equal to 0"),
    (asking(mem="1.5"), "must be an integer"),
    (asking(mem="four"), "quantities must match the regular expression"),
    (asking(whole="1", mem="4"), "asks for whole cards and a slice: write either hygon.com/dcu: N"),
    (asking(whole="1", cores="4"), "asks for whole cards and a slice: write either hygon.com/dcu: N"),
    (
        pod("bad", container(resources={"limits": {MEM: "1", "hygon.com/hcu-mem": "1"}})),
        "hygon.com/dcu and hygon.com/hcu: ask for one kind of card",
    ),
    (
        pod("bad", initContainers=[container("fetch", resources=slice_of(mem=1))]),
        "init container fetch asks for a card: an init container cannot hold a slice",
    ),
    (slice_pod("bad", mem=1, schedulerName="theirs"), "write schedulerName: vgpu-scheduler (found theirs)"),
    (slice_pod("bad", mem=1, nodeName="n1"), "leave nodeName out"),
)  # fmt: skip


def test_a_bad_request_is_refused_with_what_to_do(kubectl: Kubectl, subtests: pytest.Subtests) -> None:
    for body, words in BAD_REQUESTS:
        with subtests.test(words):
            assert words in kubectl.refusal(body)


def test_more_than_any_card_has_waits_with_a_reason(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("huge", mem=20))
    assert eventually(lambda: any("too small for the request" in e for e in kubectl.events("huge")), 30)
    assert kubectl.phase("huge") == "Pending"


def test_containers_and_sidecars_hold_slices_of_their_own(kubectl: Kubectl) -> None:
    side = container("side", resources=slice_of(mem=2, cores=5), restartPolicy="Always")
    setup = container("setup", command=["sh", "-c", "! test -e /etc/vgpu/vgpu.conf"])
    first = container("first", resources=slice_of(mem=4, cores=10))
    second = container("second", resources=slice_of(cores=10))
    plain = container("plain")
    kubectl.create(pod("many", first, second, plain, initContainers=[setup, side]))
    kubectl.running("many")
    slices = [one for name in ("side", "first", "second") for one in held(kubectl, "many", name)]
    assert [len(one.units) for one in slices] == [5, 10, 10]
    check_disjoint(slices)
    assert "none" in kubectl.inside("many", "sh", "-c", "ls /etc/vgpu || echo none", container="plain")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_pods_of_a_controller_get_slices(kubectl: Kubectl, kind: str) -> None:
    kubectl.create(deployment("app", 3, slice_pod("app", mem=2, cores=5), kind))
    kubectl("rollout", "status", f"{kind.lower()}/app", "--timeout=180s")
    names = [item["metadata"]["name"] for item in kubectl.items()]
    slices = [one for name in names for one in held(kubectl, name)]
    assert len(slices) == 3
    check_disjoint(slices)


def test_a_job_ends_and_gives_its_slices_back(kubectl: Kubectl) -> None:
    # Sixteen of a whole card's memory one after another: more than all cards together at once.
    work = slice_pod("work", mem=16, command=["vgpu-probe", "alloc", "1024"])
    kubectl.create(job("work", work, completions=16, parallelism=16))
    kubectl("wait", "--for=condition=Complete", "job/work", "--timeout=180s")


def test_a_container_that_restarts_in_place_keeps_its_slice(kubectl: Kubectl) -> None:
    body = slice_pod("again", mem=4, cores=15, command=["sh", "-c", "sleep 1000 & wait"])
    kubectl.create(body)
    kubectl.running("again")
    before = held(kubectl, "again")
    # Process 1 ends with what it waits for, and everything in the container with it, this shell too.
    with suppress(KubectlError):
        kubectl.inside("again", "sh", "-c", "kill -9 -1")
    assert eventually(lambda: restarts(kubectl, "again") >= 1, 60)
    kubectl.running("again")
    assert held(kubectl, "again") == before


def test_a_crash_loop_holds_one_slice_and_harms_nobody(kubectl: Kubectl) -> None:
    kubectl.create(
        slice_pod("loop", mem=8, cores=30, command=["sh", "-c", "exit 3"]), slice_pod("calm", mem=8, cores=30)
    )
    kubectl.running("calm")
    assert eventually(lambda: restarts(kubectl, "loop") >= 2, 90)
    assert held(kubectl, "calm")
    assert kubectl.pod("calm")["status"]["containerStatuses"][0]["restartCount"] == 0


def restarts(kubectl: Kubectl, name: str) -> int:
    statuses = kubectl.pod(name)["status"].get("containerStatuses", [])
    return int(statuses[0]["restartCount"]) if statuses else 0
