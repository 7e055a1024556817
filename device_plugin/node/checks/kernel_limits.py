"""Kernel limits: the kernel itself limits the card memory of a pod, in addition to the library, where it can.

Linux ≥ 6.14 with cgroup v2 counts the card memory of a cgroup (dmem.max, by the driver's name of the memory). Before a
container starts, the pod's cgroup exists, but not the container's. So the limit covers all slices of the pod on a card.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB
from device_plugin.core.enforcement import Enforcement
from device_plugin.node.ports import PodCgroups
from device_plugin.node.vendors.local_card import LocalCard

log = logging.getLogger(__name__)


class KernelLimits:
    """Limits the card memory of pods in the kernel, for families in the mode `enforce` or `kill`.

    Safe from any thread.
    """

    def __init__(self, cards: Callable[[], Mapping[str, LocalCard]], cgroups: PodCgroups) -> None:
        self._cards = cards
        self._cgroups = cgroups
        self._said: set[str] = set()

    def limit(self, pod: str, slices: Iterable[Slice]) -> None:
        """Limit the card memory of the pod of this UID to the memory of its slices, plus RESERVE_BYTES for each slice.

        A failure is logged once, and the pod starts nevertheless.
        """
        cards, limits = self._cards(), dict[str, int]()
        for s in slices:
            local = cards.get(s.card)
            if local is None or local.enforcement is Enforcement.OBSERVE:
                continue
            memory = local.vendor.memory_region(local.card)
            limits[memory] = limits.get(memory, 0) + s.mem_mib * MIB + local.vendor.RESERVE_BYTES
        why = self._cgroups.limit_card_memory(pod, limits) if limits else ""
        if why and why not in self._said:
            self._said.add(why)
            log.warning("the kernel does not limit the card memory of pods: %s", why)
