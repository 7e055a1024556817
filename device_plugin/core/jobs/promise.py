"""Finds which promised slices are still kept: pods that leave one job free them for another job."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from device_plugin.core.contract.grants import Slice
from device_plugin.core.ledger import CardState


def kept(freed: Iterable[Slice], taken: Iterable[Slice], cards: Mapping[str, CardState]) -> tuple[Slice, ...]:
    """The slices that must still be kept for a job on one node: at most one for each card, ordered by uuid.

    `freed` are the promised slices, which pods that left have freed for the job. `taken` are the slices of the same
    cards that the promised job has got since; their amounts are subtracted, even if they have other core groups.
    `cards` are the cards' states without this promise: only their free part is kept, so a promise never conflicts with
    a grant.
    """
    promised, used = _by_card(freed), _by_card(taken)
    found = (
        _left(promised[uuid], used.get(uuid, ()), cards[uuid]) for uuid in sorted(promised) if uuid in cards
    )
    return tuple(left for left in found if left is not None)


def _left(freed: Sequence[Slice], taken: Sequence[Slice], card: CardState) -> Slice | None:
    mem_mib = min(sum(s.mem_mib for s in freed) - sum(s.mem_mib for s in taken), card.free_mib)
    cores = {core for s in freed for core in s.cores}
    most = len(cores) - sum(len(s.cores) for s in taken)
    left = sorted(core for core in cores if card.free_cores >> core & 1)[: max(0, most)]
    # Memory without core groups, or core groups without memory, cannot be used.
    if mem_mib <= 0 or not left or card.free_slices < 1:
        return None
    return Slice(card.card.uuid, mem_mib, tuple(left))


def _by_card(slices: Iterable[Slice]) -> Mapping[str, Sequence[Slice]]:
    found: dict[str, list[Slice]] = defaultdict(list)
    for s in slices:
        found[s.card].append(s)
    return found
