"""Names of cards: unique in the cluster, stable, and short enough for every text that carries them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract.card_names import unique
from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Node
from tests.builders.cards import card
from vgpu_runtime.config import CardLimit, SliceConfig, render
from vgpu_runtime.rocm import RocmLimit, parse

# What Kubernetes accepts as the name of a node (RFC 1123 subdomain).
LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
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


OLD, NEW = "GPU-0000:19:00.0", "GPU-n1-0000:19:00.0"


@pytest.mark.parametrize(("published", "known_as"), [(OLD, OLD), (NEW, "")])
@pytest.mark.parametrize("cordoned", [OLD, NEW])
def test_inventory_and_cordon_of_any_agent_and_command_name_the_same_card(
    published: str, known_as: str, cordoned: str
) -> None:
    node = Node("n1", Inventory((card(published), card("GPU-1122334455000001"))).encode(), cordoned=cordoned)
    shared = node.shared()
    assert shared is not None
    assert [(c.uuid, c.known_as, c.cordoned) for c in shared.cards] == [
        (NEW, known_as, True), ("GPU-1122334455000001", "", False),
    ]  # fmt: skip


@pytest.mark.parametrize("published", [OLD, NEW])
def test_a_report_of_any_agent_names_the_same_card(published: str) -> None:
    held = Slice(published, 1023, (0,))
    report = ReportedSlice("uid", "default", "gone", "main", SliceState.OUTLIVING, (held,))
    shared = Node("n1", Inventory((card(published),), slices=(report,)).encode()).shared()
    assert shared is not None
    assert shared.slices == (replace(report, slices=(replace(held, card=NEW),)),)


def test_a_grant_under_the_old_name_is_one_of_the_same_card() -> None:
    held = Grant("uid", "n1", {"main": (Slice(NEW, 8184, (0, 1)),)}, cards={NEW: CardSize(16368, 4)})
    assert NEW not in held.renamed({NEW: OLD}).encode()
    assert Grant.decode(held.renamed({NEW: OLD}).encode()) == held
    assert (
        Grant.decode(replace(held, node="n2").renamed({NEW: OLD}).encode()).containers["main"][0].card != NEW
    )


def test_an_inventory_in_which_two_cards_would_have_one_name_is_refused() -> None:
    with pytest.raises(AnnotationError, match="the same uuid"):
        Node("n1", Inventory((card(OLD), card(NEW))).encode()).shared()
