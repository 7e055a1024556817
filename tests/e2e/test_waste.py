"""`vgpu waste` on a real cluster: a pod that holds 12 GiB and uses 0.5 is first; one that uses its slice is absent."""

from typing import Any

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import held
from tests.e2e.test_kubectl_plugin import listed
from tests.e2e.test_monitoring import simulate
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

HOLDS = "vgpu-probe hold {} </dev/null >/dev/null 2>&1 &"
# What each pod asks for, in GiB, and what it uses of it, in MiB.
PODS = {"hoards": (12, 512), "little": (4, 256), "uses": (2, 1800)}
# Seconds for which the agents must have followed a slice, or it must have been idle.
SECONDS = 15


def test_the_pod_that_holds_most_and_uses_least_is_first(kubectl: Kubectl) -> None:
    for name, (mem, _) in PODS.items():
        kubectl.create(slice_pod(name, mem, 10, **nodes.on(nodes.first())))
    kubectl.running(*PODS)
    for name, (_, mib) in PODS.items():
        kubectl.inside(name, "sh", "-c", HOLDS.format(mib))

    def waste() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = listed("waste", "-n", kubectl.namespace, "--idle", f"{SECONDS}s")[
            "waste"
        ]
        return rows

    def names() -> list[str]:
        return [row["owner"]["name"] for row in waste()]

    assert eventually(lambda: names() == ["hoards", "little"], 60 + SECONDS), waste()
    (found,) = waste()[0]["slices"]
    assert found["memMiB"] == held(kubectl, "hoards")[0].mem_bytes >> 20
    assert 512 <= found["peakBytes"] / (1 << 20) < 600
    assert found["observedSeconds"] >= SECONDS


def test_a_slice_is_idle_from_when_the_driver_says_that_it_computes_no_more(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("rests", 2, 10, **nodes.on(nodes.first())))
    kubectl.running("rests")
    kubectl.inside("rests", "sh", "-c", HOLDS.format(1800))
    (card,) = held(kubectl, "rests")
    (process,) = service.processes(str(kubectl.pod("rests")["metadata"]["uid"]), "sleep 100000 & wait")

    def idle() -> float | None:
        (use,) = (use for use in listed("top", "-n", kubectl.namespace)["slices"] if use["pod"] == "rests")
        found: float | None = use["idleSeconds"]
        return found

    simulate("process", str(process), card.card, "--mib", "1800", "--busy-units", "5")
    # A text of the agent may be a second old.
    assert eventually(lambda: (seconds := idle()) is not None and seconds < 2, 30), idle()
    simulate("process", str(process), card.card, "--mib", "1800", "--busy-units", "0")
    assert eventually(lambda: (idle() or 0) > SECONDS, 30 + SECONDS), idle()
