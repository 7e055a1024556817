"""What pods request of their node and what nodes can give, added up as kube-scheduler does."""

import numpy as np

from device_plugin.adapters.kube.pod_requests import DISK, amounts, offered, requested
from device_plugin.core.hosts import HostAmounts

LARGEST = str(2**63 - 1)
"""What the API server makes of `cpu: 1e30`."""


def written(cpu: str = "0", memory: str = "0", disk: str = "0") -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, DISK: disk}


def asked(cpu: str = "0", memory: str = "0", disk: str = "0") -> HostAmounts:
    return amounts(written(cpu, memory, disk))


def test_main_containers_and_sidecars_add_up_and_init_containers_do_not() -> None:
    mains = [asked("500m", "1Gi", "1Gi"), asked("1", "1500Ki", "1")]
    inits = [(asked("250m", "1Mi"), True), (asked("3", "1Mi", "5Gi"), False)]
    assert requested(mains, inits, {}, {}) == HostAmounts(3250, 1024 + 2 + 1, 5120)


def test_what_the_pod_as_a_whole_requests_goes_before_its_containers() -> None:
    found = requested([asked("4", "4Gi", "2Mi")], [], {"cpu": "1"}, {"memory": "10Mi"})
    assert found == HostAmounts(1000, 4106, 2)


def test_a_node_gives_what_is_allocatable_and_nothing_of_what_it_does_not_name() -> None:
    assert offered({"cpu": "3920m", "memory": "1025Ki", "ephemeral-storage": "47093746742"}) == HostAmounts(
        3920, 1, 44912
    )
    assert offered({}) == HostAmounts()


def test_whoever_asks_for_more_than_there_is_anywhere_breaks_no_column() -> None:
    """Tens of thousands of such pods on one node, and what is left of it still fits 64 bits."""
    mains = [asked(LARGEST, LARGEST, LARGEST)] * 100
    found = requested(mains, [(mains[0], True)] * 100, {}, written(LARGEST, LARGEST, LARGEST))
    taken = HostAmounts()
    for _ in range(50_000):
        taken += found
    left = offered(written("4", "4Gi", "4Gi")) - taken
    assert np.array([left.cpu_milli, left.memory_mib, left.disk_mib], dtype=np.int64).max() < -(10**12)
    assert offered(written(LARGEST, LARGEST, LARGEST)) == found
