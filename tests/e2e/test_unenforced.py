"""A container uses its card past the library: the node says so of it within 40 s, and of no other."""

import time

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

MIB = 512


def simulate(*words: str) -> None:
    agent = service.agent(nodes.first())
    service.SYSTEM.inside(
        agent, "vgpu", "simulate", *words, "--folder", "/var/lib/vgpu-sim", container="agent"
    )


def sample(metric: str, pod: str) -> float | None:
    lines = service.SYSTEM.metrics(service.agent(nodes.first()), service.AGENT_PORT).splitlines()
    found = [line for line in lines if line.startswith(f"{metric}{{") and f'pod="{pod}"' in line]
    return float(found[0].split()[-1]) if found else None


def reported(name: str) -> list[str]:
    entries = inventory(nodes.first()).get("slices", ())
    return [entry["state"] for entry in entries if entry["name"].endswith(f"/{name}")]


def test_a_process_that_holds_card_memory_without_the_library_is_reported(kubectl: Kubectl) -> None:
    """The kernel's figures are written for a true process: a static program cannot reach a simulated driver."""
    for name in ("past", "looks"):
        kubectl.create(slice_pod(name, mem=4, cores=15, **nodes.on(nodes.first())))
    kubectl.running("past", "looks")
    for name, mib in (("past", MIB), ("looks", 0)):
        (card,) = held(kubectl, name)
        (process,) = service.processes(str(kubectl.pod(name)["metadata"]["uid"]), "sleep 100000 & wait")
        simulate("process", str(process), card.card, "--mib", str(mib), "--busy-units", "5")
    start = time.monotonic()
    memory, compute = "vgpu_slice_kernel_memory_bytes", "vgpu_slice_compute_ratio"
    # A text may be of the moment between the two, or from before both.
    expected = [MIB << 20, 0]
    assert eventually(lambda: [sample(memory, name) for name in ("past", "looks")] == expected, 15)
    assert sample("vgpu_slice_memory_used_bytes", "past") == 0
    ratio = sample(compute, "past")
    assert ratio is not None
    assert abs(ratio - 5 / 15) < 1e-6
    # The agent finds nothing in its first minute.
    assert eventually(lambda: reported("past") == ["unenforced"], 120), time.monotonic() - start
    (event,) = (event for event in kubectl.events("past") if event.startswith("SliceUnenforced"))
    assert "Use programs that are linked dynamically with glibc" in event
    assert reported("looks") == []
    assert kubectl.phase("past") == "Running", "the mode is observe"
    kubectl.gone("past", "looks")
    assert eventually(lambda: reported("past") == [], 30)
