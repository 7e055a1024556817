"""A pod's requests of CPU, memory and disk, added up as kube-scheduler does it (KEP-753, KEP-2837)."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil, floor

from device_plugin.core.contract.quantities import parse_quantity
from device_plugin.core.contract.units import MIB
from device_plugin.core.hosts import NOTHING, HostAmounts

Amounts = Mapping[str, str | int]
# Larger amounts are cut to this: no node has as much, and sums over a node's pods stay exact in 64 bits. A pod may
# request 2**63 CPUs, which are 2**73 thousandths.
MOST = 2**42
DISK = "ephemeral-storage"


def requested(
    mains: Iterable[HostAmounts],
    inits: Iterable[tuple[HostAmounts, bool]],
    whole: Amounts,
    overhead: Amounts,
) -> HostAmounts:
    """Returns the CPU, memory and disk that a pod requests in total, as kube-scheduler adds them up.

    `mains` are the requests of the main containers, and `inits` those of the init containers, with true for a sidecar.
    Sidecars add to every later container (KEP-753). `whole` are the requests of the pod as a whole, which override the
    sum (KEP-2837). The pod's `overhead` is added.
    """
    sidecars, starting = NOTHING, NOTHING
    for own, sidecar in inits:
        if sidecar:
            sidecars += own
            own = NOTHING
        starting = _larger(starting, sidecars + own)
    running = sidecars
    for own in mains:
        running = own if running is NOTHING else running + own
    needed = running if starting is NOTHING else _larger(starting, running)
    if whole:
        needed = HostAmounts(
            _milli(str(whole["cpu"])) if "cpu" in whole else needed.cpu_milli,
            _mib(str(whole["memory"])) if "memory" in whole else needed.memory_mib,
            needed.disk_mib,  # never requested for the pod as a whole
        )
    return _bounded(needed + amounts(overhead) if overhead else needed)


def offered(allocatable: Amounts) -> HostAmounts:
    """Returns the CPU, memory and disk that a node has for pods, from its `allocatable`."""
    return _bounded(
        HostAmounts(
            _milli(str(allocatable.get("cpu", 0))),
            floor((parse_quantity(str(allocatable.get("memory", 0))) or 0) / MIB),
            floor((parse_quantity(str(allocatable.get(DISK, 0))) or 0) / MIB),
        )
    )


def amounts(written: Amounts) -> HostAmounts:
    """Returns CPU, memory and disk as the requests of a container write them (`{"cpu": "500m"}`)."""
    if not written:
        return NOTHING
    return _read(str(written.get("cpu", 0)), str(written.get("memory", 0)), str(written.get(DISK, 0)))


def _larger(one: HostAmounts, other: HostAmounts) -> HostAmounts:
    return HostAmounts(
        max(one.cpu_milli, other.cpu_milli),
        max(one.memory_mib, other.memory_mib),
        max(one.disk_mib, other.disk_mib),
    )


# Cached, because tens of thousands of pods have only a few distinct amounts.
@lru_cache(1024)
def _read(cpu: str, memory: str, disk: str) -> HostAmounts:
    return HostAmounts(_milli(cpu), _mib(memory), _mib(disk))


@lru_cache(1024)
def _milli(text: str) -> int:
    return ceil((parse_quantity(text) or 0) * 1000)


@lru_cache(1024)
def _mib(text: str) -> int:
    return ceil((parse_quantity(text) or 0) / MIB)


@lru_cache(4096)
def _bounded(amounts: HostAmounts) -> HostAmounts:
    return HostAmounts(
        min(amounts.cpu_milli, MOST), min(amounts.memory_mib, MOST), min(amounts.disk_mib, MOST)
    )
