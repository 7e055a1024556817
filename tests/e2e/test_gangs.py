"""Pods of one group that are placed all or nothing."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import check_disjoint, held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, job, pod, slice_of, slice_pod
from tests.requirement import require


def here() -> dict[str, Any]:
    """The part of a pod's spec that sends it to the first node."""
    return nodes.on(nodes.first())


def labels(size: object) -> Mapping[str, str]:
    return {"vgpu.io/group": "train", "vgpu.io/group-size": str(size)}


def member(name: str, size: object, mem: int, cores: int) -> dict[str, Any]:
    """A pod of the gang, on the first node."""
    body = slice_pod(name, mem=mem, cores=cores, **here())
    body["metadata"]["labels"] |= labels(size)
    return body


def told(kubectl: Kubectl, name: str, words: str) -> bool:
    return any(words in event for event in kubectl.events(name) if event.startswith("FailedScheduling"))


def gang(kubectl: Kubectl) -> Mapping[str, Any]:
    """The gang as /explain shows it."""
    found = service.explain(service.leader())["gangs"]
    return next((one for one in found if one["namespace"] == kubectl.namespace), {})


def test_nobody_runs_before_all_exist_and_then_all_run(kubectl: Kubectl) -> None:
    kubectl.create(member("a", 3, 4, 15), member("b", 3, 4, 15))
    for name in ("a", "b"):
        assert eventually(partial(told, kubectl, name, "group train waits until all of its 3 pods exist"), 30)
        assert kubectl.phase(name) == "Pending"
    why = "group train waits for 1 more pod (2 of 3 exist)"
    assert eventually(lambda: gang(kubectl).get("why") == why, 30), gang(kubectl)
    kubectl.create(member("c", 3, 4, 15))
    kubectl.running("a", "b", "c")
    check_disjoint([one for name in ("a", "b", "c") for one in held(kubectl, name)])
    assert eventually(lambda: gang(kubectl).get("bound") == 3, 30), gang(kubectl)


def test_a_gang_that_fits_in_part_holds_nothing_and_runs_once_another_left(kubectl: Kubectl) -> None:
    cards = len(inventory(nodes.first())["cards"])
    require(cards >= 2, "needs a node with two cards")
    kubectl.create(pod("blocker", container(resources=slice_of(whole=cards - 1)), **here()))
    kubectl.running("blocker")
    kubectl.create(member("a", 2, 16, 60), member("b", 2, 16, 60))
    assert eventually(lambda: told(kubectl, "b", "group train: no room for all 2 pods at once"), 60)
    # The last card is anybody's while the gang waits.
    kubectl.create(slice_pod("other", mem=16, cores=60, **here()))
    kubectl.running("other")
    assert {kubectl.phase(name) for name in ("a", "b")} == {"Pending"}
    kubectl.gone("blocker", "other")
    kubectl.running("a", "b")


def test_a_job_whose_pods_are_a_gang_runs_them_together(kubectl: Kubectl) -> None:
    body = job("train", slice_pod("train", mem=4, cores=15), completions=3, parallelism=3)
    body["spec"]["template"]["metadata"]["labels"] |= labels(3)
    kubectl.create(body)
    assert eventually(lambda: len(kubectl.items()) == 3, 30)
    kubectl.running()
    before = {item["metadata"]["name"] for item in kubectl.items()}
    # The Job makes another pod in place of one that went, and it joins the others.
    kubectl.gone(min(before))
    assert eventually(lambda: len(kubectl.items()) == 3, 60)
    kubectl.running()
    check_disjoint([one for item in kubectl.items() for one in held(kubectl, item["metadata"]["name"])])


def test_a_size_that_is_none_is_refused_with_what_to_write(
    kubectl: Kubectl, subtests: pytest.Subtests
) -> None:
    for size in ("0", "1025", "three"):
        with subtests.test(size):
            words = f"label vgpu.io/group-size is {size}: write a whole number from 1 to 1024"
            assert words in kubectl.refusal(member("a", size, 4, 15))
