"""The fast readers return what Grant.decode and Inventory.decode return."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from device_plugin.adapters.kube import fast_annotations
from device_plugin.adapters.kube.fast_annotations import read_grant, read_inventory
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.errors import AnnotationError
from tests.builders.cards import card, inventory

NODE = "gpu-1"
USUAL = Grant("uid", NODE, {"main": (Slice("GPU-1", 4092, (0, 1, 2)),)}, cards={"GPU-1": CardSize(16368, 4)})


def test_a_grant_of_one_slice_and_an_inventory_without_reports_are_read_fast() -> None:
    assert fast_annotations._usual_grant(USUAL.encode()) == Grant.decode(USUAL.encode()) == USUAL
    cards = inventory("n1", 8)
    assert fast_annotations._usual_inventory(cards.encode()) == Inventory.decode(cards.encode()) == cards


@pytest.mark.parametrize(
    "grant",
    [
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)), Slice("y", 1, (0,)))}),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)),), "b": (Slice("x", 1, (1,)),)}),
        Grant(
            "uid",
            NODE,
            {"a": (Slice("GPU-0000:19:00.0", 1, (0,)),)},
            cards={"GPU-0000:19:00.0": CardSize(1, 1)},
        ),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,), percent=25),)}),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)),)}),
    ],
)
def test_other_grants_are_read_too(grant: Grant) -> None:
    assert read_grant(grant.encode()) == Grant.decode(grant.encode())


@pytest.mark.parametrize(
    "grant",
    [
        Grant("uid", NODE, {"\x1b[31m": (Slice("x", 1, (0,)),)}),
        Grant("uid", NODE, {"c" * 64: (Slice("x", 1, (0,)),)}),
        Grant("uid", NODE, {"a": (Slice("x", 1, (0,)),)}, cards={"\u202ex": CardSize(1, 1)}),
    ],
)
def test_names_that_nobody_should_print_are_refused_here_too(grant: Grant) -> None:
    with pytest.raises(AnnotationError, match="printable"):
        read_grant(grant.encode())


REPORT = ReportedSlice("uid", "default", "a", "main", SliceState.OUTLIVING, (Slice("n1-0", 1, (0,)),))


@pytest.mark.parametrize(
    "shared",
    [
        Inventory(()),
        Inventory((replace(card("GPU-0000:19:00.0", healthy=False), numa=-1, hive="h"),), serving=False),
        replace(inventory("n1"), slices=(REPORT,)),
    ],
)
def test_other_inventories_are_read_too(shared: Inventory) -> None:
    assert read_inventory(shared.encode()) == shared


Kind = tuple[str, Callable[[str], object], Callable[[str], object]]
KINDS: list[Kind] = [
    (USUAL.encode(), Grant.decode, read_grant),
    (Inventory((replace(card("GPU-1"), hive="h"), card("GPU-2"))).encode(), Inventory.decode, read_inventory),
]


@pytest.mark.parametrize("kind", KINDS, ids=["grant", "inventory"])
def test_a_text_that_is_changed_at_random_is_read_as_decode_reads_it(kind: Kind) -> None:
    whole, decode, fast = kind
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    lists, texts = ["[]", "[1,0]", "[1,1]", "[1024]"], ['"x"', '""', '"\\u202e"', '"\ud800"', '"GPU-1"']
    values = ["0", "1", "-1", "1.5", "1.0", "1e0", "NaN", "true", "false", "null", "{}", str(2**41)]
    pieces = [*values, *lists, *texts]
    read = 0
    for _ in range(3000):
        words = whole.replace(",", "|,|").replace(":", "|:|").split("|")
        words[rng.randrange(len(words))] = rng.choice(pieces)
        text = "".join(words)
        expected = decoded(text, decode)
        assert decoded(text, fast) == expected, text
        read += not isinstance(expected, str)
    assert read


def decoded(text: str, decode: Callable[[str], object]) -> object:
    try:
        return decode(text)
    except AnnotationError as error:
        return str(error)
