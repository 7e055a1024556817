"""A witness: a callback for every started container, which compares the container's files with the pod's grant."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.masks import unit_mask
from vgpu_runtime import paths, rocm, sim
from vgpu_runtime.config import SliceConfig
from vgpu_runtime.rocm import RocmLimit

MIB = 1 << 20
Key = tuple[str, str]
"""Pod UID and container name."""


class Witness:
    """Called by the runtime for each container that starts. `wrong` has texts about differences from the grants."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Key, SliceConfig[RocmLimit]] = {}
        self.started = 0
        self.wrong: list[str] = []

    def __call__(
        self, pod: Mapping[str, Any], container: str, files: Mapping[str, bytes], env: Mapping[str, str]
    ) -> None:
        """Compare a starting container's files with its grant, and record them; the container then runs."""
        del env
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        try:
            seen = rocm.parse(files[paths.CONTAINER_CONFIG].decode())
            fault = self._difference(pod, container, seen)
        except (KeyError, ValueError) as error:
            fault = f"its config cannot be read: {error!r}"
        with self._lock:
            self.started += 1
            if fault:
                self.wrong.append(f"pod {name} container {container}: {fault}")
            else:
                self._seen[(uid, container)] = seen

    def overlaps(self, live: set[str], cards: Iterable[sim.SimCard]) -> list[str]:
        """Texts about core groups that two `live` pods have, and about cards whose memory was given twice.

        The limits are those in the containers' config files.
        """
        with self._lock:
            held = [(key, card) for key, seen in self._seen.items() if key[0] in live for card in seen.cards]
        found = []
        masks: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        for key, card in held:
            if masks[card.uuid] & card.family.mask:
                found.append(f"a core group of {card.uuid} is held twice, once by {key}")
            masks[card.uuid] |= card.family.mask
            memory[card.uuid] += card.mem_bytes // MIB
        capacity = {f"GPU-{card.unique_id:016x}": card.memory_mib for card in cards}
        found += [f"{uuid} holds {mib} MiB" for uuid, mib in memory.items() if mib > capacity[uuid]]
        return found

    def forget(self) -> None:
        """Forget all containers, for a new round."""
        with self._lock:
            self._seen.clear()

    def _difference(self, pod: Mapping[str, Any], container: str, seen: SliceConfig[RocmLimit]) -> str:
        grant = Grant.decode(pod["metadata"]["annotations"]["vgpu.io/grant"])
        wanted = sorted((s.card, s.mem_mib * MIB, unit_mask(s.cores, 1)) for s in grant.containers[container])
        got = sorted((card.uuid, card.mem_bytes, card.family.mask) for card in seen.cards)
        if (seen.pod, seen.container) != (pod["metadata"]["uid"], container):
            return f"it got the config of pod {seen.pod} container {seen.container}"
        return "" if got == wanted else f"it got {got}, its grant says {wanted}"
