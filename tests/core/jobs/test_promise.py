"""What is left of a promise: never more than was freed, never what others hold, and less by what was taken."""

from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.masks import core_mask
from device_plugin.core.jobs.promise import kept
from device_plugin.core.ledger import CardState
from tests.builders.cards import card

GROUPS, MIB = 8, 1600
FREE = CardState.of(card("c0", groups=GROUPS, mem_mib=MIB), ())
SLICES = st.lists(
    st.builds(
        Slice, st.sampled_from(("c0", "c1")), st.integers(1, MIB),
        st.sets(st.integers(0, GROUPS - 1), min_size=1).map(lambda cores: tuple(sorted(cores))),
    ),
    max_size=4,
)  # fmt: skip


def test_what_was_freed_is_kept() -> None:
    freed = [Slice("c0", 400, (0, 1)), Slice("c0", 200, (4,))]
    assert kept(freed, (), {"c0": FREE}) == (Slice("c0", 600, (0, 1, 4)),)


def test_what_was_taken_counts_wherever_it_lies_on_the_card() -> None:
    freed = [Slice("c0", 600, (0, 1, 2, 3))]
    state = CardState.of(FREE.card, [Slice("c0", 200, (6, 7))])
    assert kept(freed, [Slice("c0", 200, (6, 7))], {"c0": state}) == (Slice("c0", 400, (0, 1)),)
    assert kept(freed, [Slice("c1", 200, (6, 7))], {"c0": state}) == (Slice("c0", 600, (0, 1, 2, 3)),)
    assert kept(freed, [Slice("c0", 600, (4, 5, 6, 7))], {"c0": FREE}) == ()


def test_what_others_hold_is_not_kept() -> None:
    state = CardState.of(FREE.card, [Slice("c0", 1300, (0, 1))])
    assert kept([Slice("c0", 600, (1, 2))], (), {"c0": state}) == (Slice("c0", 300, (2,)),)


def test_a_card_that_is_gone_or_full_keeps_nothing() -> None:
    assert kept([Slice("c1", 600, (1, 2))], (), {"c0": FREE}) == ()
    full = CardState.of(FREE.card, [Slice("c0", 100, (number,)) for number in range(FREE.card.max_slices)])
    assert kept([Slice("c0", 600, (7,))], (), {"c0": full}) == ()


@given(SLICES, SLICES, SLICES)
def test_no_more_is_kept_than_was_freed_less_what_was_taken_and_nothing_that_is_held(
    freed: list[Slice], taken: list[Slice], others: list[Slice]
) -> None:
    held = {uuid: [s for s in (*taken, *others) if s.card == uuid] for uuid in ("c0", "c1")}
    cards = {uuid: CardState.of(card(uuid, groups=GROUPS, mem_mib=MIB), held[uuid]) for uuid in held}
    for left in kept(freed, taken, cards):
        promised = [s for s in freed if s.card == left.card]
        used = [s for s in taken if s.card == left.card]
        state = cards[left.card]
        assert set(left.cores) <= {core for s in promised for core in s.cores}
        assert left.mem_mib <= sum(s.mem_mib for s in promised) - sum(s.mem_mib for s in used)
        assert core_mask(left.cores) & ~state.free_cores == 0
        assert 0 < left.mem_mib <= state.free_mib
