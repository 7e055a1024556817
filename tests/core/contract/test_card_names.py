"""Names of cards: unique in the cluster, stable, and short enough for every text that carries them."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.card_names import unique
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.pods import Node
from tests.builders.cards import card
from vgpu_runtime.config import CardLimit, SliceConfig, render
from vgpu_runtime.rocm import RocmLimit, parse

# What Kubernetes accepts as the name of a node (RFC 1123 subdomain).
LABEL = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=63).filter(
    lambda text: text == text.strip("-")
)
NODES = st.lists(LABEL, min_size=1, max_size=5).map(".".join).filter(lambda name: len(name) <= 253)
PCI = st.from_regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]", fullmatch=True)
IDS = st.integers(1, 2**64 - 1).map(lambda number: f"GPU-{number:016x}")


@pytest.mark.no_cover
@given(st.lists(st.tuples(NODES, PCI), min_size=2, max_size=2, unique=True))
def test_cards_without_a_unique_id_differ_by_node_and_address(places: list[tuple[str, str]]) -> None:
    first, second = (unique(f"GPU-{pci}", node) for node, pci in places)
    assert first != second


@given(NODES, PCI | IDS)
def test_a_unique_name_stays_as_it_is(node: str, name: str) -> None:
    named = unique(f"GPU-{name}".replace("GPU-GPU-", "GPU-"), node)
    assert unique(named, node) == unique(named, "another-node") == named


@given(IDS, NODES)
def test_what_the_driver_knows_is_not_changed(name: str, node: str) -> None:
    assert unique(name, node) == name


@given(NODES, PCI)
def test_a_name_passes_through_inventory_grant_and_config(node: str, pci: str) -> None:
    name = unique(f"GPU-{pci}", node)
    assert len(name) <= 4 + 63 + 1 + len(pci)
    shared = Node(node, Inventory((card(name),)).encode()).shared()
    assert shared is not None
    assert shared.cards[0] == card(name)
    held = Grant("uid", node, {"main": (Slice(name, 8184, (0, 1)),)})
    assert Grant.decode(held.encode()) == held
    limit = CardLimit(name, pci, "Z100", "?", 1 << 30, RocmLimit(1, 128, 60, 1, paired=False, mask=1))
    config = SliceConfig("uid", "main", (limit,))
    assert parse(render(config)) == config


def test_long_node_names_that_begin_alike_differ() -> None:
    first, second = (unique("GPU-0000:19:00.0", f"{'a' * 200}{end}") for end in "bc")
    assert first != second
    assert len(first) == len(second) == 4 + 63 + 1 + 12
