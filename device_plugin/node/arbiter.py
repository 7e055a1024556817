"""The last arbiter: a slice is free when its container is gone, whatever the ledger says.

A force-deleted pod's containers can outlive its object; a successor that the allocator has already placed there
must wait for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from device_plugin.core.grants import CardSize, Slice
from device_plugin.core.masks import core_mask
from device_plugin.node.records import Record


def rival(
    pod: str,
    wanted: Sequence[Slice],
    sizes: Mapping[str, CardSize],
    records: Iterable[Record],
    alive: Callable[[str], bool],
) -> Record | None:
    """A record of another pod that is still `alive` and cannot be beside the `wanted` slices; None if there is none.

    `wanted` are the slices of all containers of the pod: each alone may fit where together they do not. Two slices
    clash if they share a core group, or if all slices of a card exceed its memory or its slice count. `sizes` are what
    the cards may hold, by uuid; of a card without one only core groups are compared.
    """
    others = [record for record in records if record.pod != pod]
    for uuid in sorted({s.card for s in wanted}):
        own = [s for s in wanted if s.card == uuid]
        beside = [(r, s) for r in others for s in r.slices if s.card == uuid]
        cores = core_mask(core for s in own for core in s.cores)
        for record, held in beside:
            if core_mask(held.cores) & cores and alive(record.pod):
                return record
        # To ask who lives is to look through cgroups: only where it makes a difference.
        size = sizes.get(uuid)
        if size is not None and _exceeds(size, own, beside):
            beside = [(r, s) for r, s in beside if alive(r.pod)]
            if beside and _exceeds(size, own, beside):
                return beside[-1][0]
    return None


def _exceeds(size: CardSize, own: Sequence[Slice], beside: Sequence[tuple[Record, Slice]]) -> bool:
    memory = sum(s.mem_mib for s in own) + sum(held.mem_mib for _, held in beside)
    return memory > size.mem_mib or len(own) + len(beside) > size.max_slices
