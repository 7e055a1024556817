"""A promise: slices that pods of one job free, and that are kept for another job until its pods have taken them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from device_plugin.core.contract.grants import Slice
from device_plugin.core.ledger import CardState


def kept(freed: Iterable[Slice], taken: Iterable[Slice], cards: Mapping[str, CardState]) -> tuple[Slice, ...]:
    """The rest of a promise on one node: one slice for each card on which something is left, ordered by uuid.

    `freed` was promised, and `taken` is what the job that it is promised to has got of the same cards since, wherever
    on the card it lies. `cards` are the states of the cards without this promise: what others hold is not kept, so that
    a promise never conflicts with a grant.
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
    # Memory without core groups, or the reverse, is of no use.
    if mem_mib <= 0 or not left or card.free_slices < 1:
        return None
    return Slice(card.card.uuid, mem_mib, tuple(left))


def _by_card(slices: Iterable[Slice]) -> Mapping[str, Sequence[Slice]]:
    found: dict[str, list[Slice]] = defaultdict(list)
    for s in slices:
        found[s.card].append(s)
    return found
