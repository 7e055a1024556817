"""Offers: equal nodes are looked up once, in any thread, and the texts of a refusal are those of its nodes."""

import random

import pytest

from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.placement.offer import MOST, Offer, RecentOffers

ROWS = {f"n{row}": row for row in range(6)}


def test_equal_nodes_are_one_offer_as_long_as_the_rows_are_the_same() -> None:
    offers = RecentOffers()
    first = offers.of(ROWS, ["n1", "ghost"])
    assert (first.rows.tolist(), first.mask.tolist()) == ([1, -1], [False, True, False, False, False, False])
    assert [name in first for name in ("n1", "ghost", "n0", "other")] == [True, True, False, False]
    assert offers.of(ROWS, ["n1", "ghost"]) is first
    assert offers.of(dict(ROWS), ["n1", "ghost"]) is not first


def test_the_oldest_of_too_many_offers_is_forgotten() -> None:
    offers = RecentOffers()
    first, *others = (offers.of(ROWS, [f"n{row % 6}", f"{row}"]) for row in range(MOST + 1))
    assert all(offers.of(ROWS, list(offer.names)) is offer for offer in others)
    assert offers.of(ROWS, list(first.names)) is not first


def test_a_list_that_is_changed_later_is_another_one() -> None:
    offers, nodes = RecentOffers(), ["n1"]
    first = offers.of(ROWS, nodes)
    nodes.append("n2")
    assert offers.of(ROWS, nodes) is not first


@pytest.mark.parametrize("seed", range(10))
def test_each_node_has_the_text_of_its_row_and_its_note(seed: int) -> None:
    rng = random.Random(seed)
    texts = ("zero", "one", "two")
    for _ in range(50):
        ranks = bytes(rng.choice([0, 1, 2, 2]) for _ in range(len(ROWS) + 1))
        names = rng.sample([*ROWS, "ghost-1", "ghost-2"], rng.randint(0, 8))
        notes = {name: f"note of {name}" for name in rng.sample([*ROWS, "other"], rng.randint(0, 3))}
        wanted = {name: texts[ranks[ROWS.get(name, -1)]] for name in names}
        plain = NodeTexts(Offer(ROWS, names), texts, ranks)
        assert plain == wanted, f"seed {seed}"
        found = plain.noted(notes)
        assert found == {
            name: f"{text} ({notes[name]})" if name in notes else text for name, text in wanted.items()
        }
        assert sorted(name for some in found.nodes_by_text.values() for name in some) == sorted(names)


def test_equal_texts_of_one_offer_have_one_key() -> None:
    offer, other = Offer(ROWS, ["n1"]), Offer(ROWS, ["n1"])
    keys = [
        NodeTexts.same(offer, "a").key, NodeTexts.same(other, "a").key, NodeTexts.same(offer, "b").key,
        NodeTexts.same(offer, "a").noted({"n1": "x"}).key,
        NodeTexts(offer, ("a",), bytes(7)).key,
    ]  # fmt: skip
    assert len(set(keys)) == 4
    assert keys[0] == keys[-1]
