"""A namespace of strict quota: slices in percent, of several cards, counted by a ResourceQuota."""

from typing import Any

from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import cards, check_disjoint, held
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod

PREFIX = "hygon.com/dcu"


def asking(name: str, of_cards: int = 1, **limits: int) -> dict[str, Any]:
    """A pod that asks for these amounts, by the suffixes of the resources' names, of so many cards together."""
    amounts = {f"{PREFIX}-{key}": str(count) for key, count in limits.items()}
    body = pod(name, container(resources={"limits": amounts}))
    body["metadata"]["annotations"] = {"vgpu.io/slices": str(of_cards)}
    return body


def test_percent_and_slices_are_given_counted_and_never_passed_by(kubectl: Kubectl) -> None:
    kubectl("label", "namespace", kubectl.namespace, "vgpu.io/quota=strict")
    hard = f"requests.{PREFIX}-percent=200,requests.{PREFIX}-mem=0,requests.{PREFIX}-slices=4"
    kubectl("create", "quota", "cards", f"--hard={hard}")
    # The API server learns of the label and of the quota by watches, and a controller counts what there is.
    more = asking("more", 5, percent=100, slices=5)
    assert eventually(lambda: "exceeded quota" in kubectl.would_refuse(more), 30), kubectl.would_refuse(more)
    assert eventually(lambda: kubectl.would_refuse(asking("bare", percent=25)), 30), "the label holds"
    assert "write hygon.com/dcu-slices: 1" in kubectl.refusal(asking("bare", percent=25))
    assert "write hygon.com/dcu-mem too, or" in kubectl.refusal(asking("half", cores=15, slices=1))
    assert "asks for hygon.com/dcu-slices alone" in kubectl.refusal(asking("none", slices=1))
    # Two quarters, and a half of each of two cards.
    kubectl.create(*(asking(f"quarter-{i}", percent=25, slices=1) for i in range(2)))
    kubectl.create(asking("pair", 2, percent=100, slices=2))
    for name in ("quarter-0", "quarter-1", "pair"):
        kubectl.running(name)
    known = cards()
    quarters, pair = [*held(kubectl, "quarter-0"), *held(kubectl, "quarter-1")], held(kubectl, "pair")
    check_disjoint([*quarters, *pair])
    for slices, percent in ((quarters, 25), (pair, 50)):
        for one in slices:
            card = known[one.card]
            assert one.mem_bytes == card["memMiB"] * percent // 100 << 20
            assert len(one.units) == card["computeUnits"] * percent // 100
    assert len({one.card for one in pair}) == 2
    assert "exceeded quota" in kubectl.refusal(asking("more", percent=25, slices=1))
