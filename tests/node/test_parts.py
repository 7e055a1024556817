"""Tickets, overlaps, discovery, publishing and preflight, each on its own."""

import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from device_plugin.core.cards import Card, Inventory
from device_plugin.core.grants import Slice
from device_plugin.node.checks.preflight import Preflight
from device_plugin.node.slices.claims import blocking_record
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.tickets import not_advertised, resources, unhealthy
from device_plugin.node.stages.discover import Discovery
from device_plugin.node.stages.publish import LAST_DELAY, LOOK_SECONDS, Publisher
from device_plugin.node.vendors.port import FoundCard, Scan
from device_plugin.node.vendors.rocm import KfdCard, Rocm
from tests.node.parts import PREFIXES, Peer

FOUND = FoundCard(
    "GPU-1", "Z100", "0000:19:00.0", mem_mib=16368, compute_units=60, group_units=1, max_slices=4, numa=0,
    payload=KfdCard(gpu_id=7, render_minor=128, xcc=1, paired=False),
)  # fmt: skip


class Listed(Rocm):
    """A vendor whose driver shows these cards."""

    PCI_VENDOR: ClassVar[int] = 0x1D94

    def __init__(self, *cards: FoundCard[KfdCard]) -> None:
        self._cards = cards

    def scan(self) -> Scan[KfdCard]:
        return Scan(self._cards)


class ListedAmd(Listed):
    """A vendor whose driver shows these cards of AMD."""

    PCI_VENDOR: ClassVar[int] = 0x1002


def shared(
    *found: FoundCard[KfdCard],
    unit: int = 1024,
    prefixes: Mapping[str, str] = PREFIXES,
    exclude: Sequence[str] = (),
    vendor: type[Listed] = Listed,
) -> list[Card]:
    return [local.card for local in Discovery("n1", [vendor(*found)], prefixes, unit, exclude).scan()]


def card(found: FoundCard[KfdCard] = FOUND, unit: int = 1024) -> Card:
    (card,) = shared(found, unit=unit)
    return card


def test_a_card_is_cut_as_its_vendor_says() -> None:
    assert (card().units, card().core_groups, card().max_slices, card().family) == (
        16,
        60,
        4,
        "hygon.com/dcu",
    )
    found = replace(FOUND, compute_units=81, group_units=2, max_slices=16)
    (rdna,) = shared(found, vendor=ListedAmd)
    assert (rdna.core_groups, rdna.group_units, rdna.max_slices, rdna.family) == (40, 2, 16, "amd.com/gpu")


@pytest.mark.parametrize(
    ("found", "exclude"),
    [
        (FOUND, ("GPU-1",)),
        (FOUND, ("0000:19:00.0",)),
        (replace(FOUND, unfit="it is too round"), ()),
        (replace(FOUND, mem_mib=1 << 60), ()),
        (replace(FOUND, model="\n"), ()),
    ],
)
def test_cards_that_are_excluded_or_unfit_are_left_out(
    found: FoundCard[KfdCard], exclude: tuple[str, ...]
) -> None:
    other = replace(FOUND, uuid="GPU-2", pci="0000:21:00.0")
    assert [each.uuid for each in shared(found, other, exclude=exclude)] == ["GPU-2"]


def test_an_excluded_card_stays_while_slices_of_it_are_held() -> None:
    discovery = Discovery("n1", [Listed(FOUND)], PREFIXES, 1024, ["0000:19:00.0"])
    (local,) = discovery.scan({"GPU-1"})
    assert (local.card.uuid, local.excluded, local.card.healthy) == ("GPU-1", True, True)
    assert not discovery.scan({"GPU-2"})


def test_cards_of_a_vendor_without_a_prefix_are_left_out_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    discovery = Discovery("n1", [Listed(FOUND)], {"1002": "amd.com/gpu"}, 1024, ())
    assert [discovery.scan() for _ in range(3)] == [()] * 3
    assert caplog.messages == ["card 0000:19:00.0 is of vendor 1d94: not shared"]


def test_what_the_cluster_would_not_believe_is_said_with_a_cure(caplog: pytest.LogCaptureFixture) -> None:
    assert not shared(replace(FOUND, pci="0000:21:00.0", model="\n"))
    assert "0000:21:00.0" in caplog.text
    assert "exclude it" in caplog.text


def test_a_card_that_is_sick_at_first_sight_is_shared_as_a_sick_one() -> None:
    assert not card(replace(FOUND, fault="it is hot")).healthy


def test_partitions_with_one_identity_are_not_taken_for_two_cards(caplog: pytest.LogCaptureFixture) -> None:
    discovery = Discovery(
        "n1", [Listed(FOUND, replace(FOUND, payload=replace(FOUND.payload, gpu_id=8)))], PREFIXES, 1024, ()
    )
    assert [local.payload.gpu_id for local in discovery.scan()] == [7]
    assert "SPX" in caplog.text


def test_eight_cards_of_256_gib_are_advertised_whole() -> None:
    cards = [replace(card(replace(FOUND, mem_mib=256 * 1024)), uuid=f"GPU-{i}") for i in range(8)]
    assert ("hygon.com/dcu-mem", 2048) in [(r.name, r.count) for r in resources(cards)]
    assert not list(not_advertised(cards))


@pytest.mark.parametrize(("unit", "enough"), [(1, 4), (3, 6), (7, 7)])
def test_what_a_kubelet_does_not_bear_is_left_out_and_said_with_the_unit_that_would_do(
    unit: int, enough: int
) -> None:
    cards = [card(unit=unit)]
    assert {r.name: r.count for r in resources(cards)}["hygon.com/dcu-mem"] == min(4096, cards[0].units)
    said = [f"hygon.com/dcu-mem: 4096 of {cards[0].units} are advertised"] if enough > unit else []
    found = list(not_advertised(cards))
    assert [text.partition(",")[0] for text in found] == said
    assert all(f"set memUnitMiB to {enough} on all nodes" in text for text in found)
    assert not list(not_advertised([card(unit=enough)]))


def test_too_many_core_groups_are_left_out_too() -> None:
    cards = [replace(card(), uuid=f"GPU-{i}", core_groups=100, compute_units=100) for i in range(64)]
    said = list(not_advertised(cards))
    assert [text.partition(",")[0] for text in said] == [
        "hygon.com/dcu-cores: 4096 of 6400 are advertised",
        "hygon.com/dcu-percent: 4096 of 6400 are advertised",
    ]
    assert all("excludeCards" in text for text in said)


def test_cards_that_an_inventory_cannot_carry_do_not_take_the_others_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    many = [replace(FOUND, uuid=f"GPU-{i:03}") for i in range(70)]
    long = replace(FOUND, uuid="GPU-" + "x" * 99, model="m" * 250, pci="p" * 250)
    found = shared(long, *many[:3], prefixes={"1d94": "a.com/" + "d" * 240})
    assert [each.uuid for each in found] == ["GPU-000", "GPU-001", "GPU-002"]
    assert len(Inventory.decode(Inventory(tuple(shared(*many))).encode()).cards) == 64
    assert "card GPU-069 at 0000:19:00.0 is not shared: a node shares at most 64" in caplog.text


def test_a_card_has_tickets_of_each_resource() -> None:
    assert [(r.name, r.count) for r in resources([card()])] == [
        ("hygon.com/dcu", 1),
        ("hygon.com/dcu-mem", 16),
        ("hygon.com/dcu-cores", 60),
        ("hygon.com/dcu-percent", 100),
        ("hygon.com/dcu-slices", 4),
    ]


def test_a_sick_card_spoils_its_own_tickets_and_free_ones_up_to_its_size_never_others() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(300):
        cards = [replace(card(), uuid=f"GPU-{i}") for i in range(rng.randint(1, 4))]
        (resource,) = (r for r in resources(cards) if r.name.endswith("-mem"))
        tickets = resource.tickets()
        rng.shuffle(tickets)
        granted = {c.uuid: {tickets.pop() for _ in range(rng.randint(0, c.units))} for c in cards}
        sick = [c for c in cards if rng.random() < 0.5]
        bad = unhealthy(resource, sick, granted, set().union(*granted.values()))
        for c in cards:
            assert granted[c.uuid] <= bad if c in sick else not granted[c.uuid] & bad
        assert len(bad) == sum(c.units for c in sick)


def record(pod: str, *slices: Slice) -> Record:
    return Record(pod, "default", f"name-{pod}", "main", slices)


@pytest.mark.parametrize(
    ("others", "wanted", "blocked"),
    [
        ([Slice("GPU-1", 1024, (0, 1))], Slice("GPU-1", 1024, (1, 2)), True),
        ([Slice("GPU-1", 1024, (0, 1))], Slice("GPU-1", 1024, (2, 3)), False),
        ([Slice("GPU-1", 1024, (0, 1))], Slice("GPU-2", 1024, (0, 1)), False),
        ([Slice("GPU-1", 12000, (0,))], Slice("GPU-1", 4369, (1,)), True),
        ([Slice("GPU-1", 12000, (0,))], Slice("GPU-1", 4368, (1,)), False),
        ([Slice("GPU-1", 1, (i,)) for i in range(4)], Slice("GPU-1", 1, (9,)), True),
        ([Slice("GPU-1", 1, (i,)) for i in range(3)], Slice("GPU-1", 1, (9,)), False),
    ],
)
def test_what_cannot_be_side_by_side_waits_for_the_living(
    others: list[Slice], wanted: Slice, blocked: bool
) -> None:
    cards = {name: card().size for name in ("GPU-1", "GPU-2")}
    records = [record(f"p{i}", slice_) for i, slice_ in enumerate(others)]
    assert (blocking_record("me", [wanted], cards, records, lambda _: True) is not None) == blocked
    assert blocking_record("me", [wanted], cards, records, lambda _: False) is None


def test_a_folder_without_a_record_was_never_mounted_and_goes(tmp_path: Path) -> None:
    records = Records(tmp_path, "n1")
    records.put(record("good", Slice("GPU-1", 1, (0,))))
    records.put(record("bad", Slice("GPU-1", 1, (1,))))
    (records.folder("bad", "main") / "record.json").unlink()
    again = Records(tmp_path, "n1")
    again.load()
    assert [r.pod for r in again.all()] == ["good"]
    assert not (tmp_path / "slices/bad").exists()


def test_the_inventory_is_written_when_it_changes_and_never_otherwise() -> None:
    clock, api = [0.0], Peer()
    publisher = Publisher(api, lambda: clock[0])
    for serving, writes in ((False, 1), (True, 2), (True, 2), (False, 3)):
        for _ in range(100):
            clock[0] += 1
            publisher.step([card()], serving=serving)
        assert api.writes == writes
    Publisher(api, lambda: clock[0]).step([card()], serving=False)
    assert api.writes == 3, "a restarted agent finds its own inventory"


def test_an_absent_api_server_is_asked_ever_more_slowly_and_then_told() -> None:
    clock, api = [0.0], Peer()
    api.up = False
    publisher = Publisher(api, lambda: clock[0])
    publisher.step([card()], serving=True)
    assert "API server" in publisher.why_not
    api.up = True
    clock[0] += LAST_DELAY
    publisher.step([card()], serving=True)
    assert (publisher.why_not, api.writes) == ("", 1)


def test_the_inventory_ages_while_the_api_server_is_not_reached() -> None:
    clock, api = [0.0], Peer()
    publisher = Publisher(api, lambda: clock[0])
    ages = []
    for up, seconds in ((True, 100), (False, 300), (True, 20)):
        api.up = up
        for _ in range(seconds):
            clock[0] += 1
            publisher.step([card()], serving=True)
        ages.append(publisher.age)
    assert ages[0] == ages[2] == 0.0
    assert 300 - LOOK_SECONDS <= ages[1] <= 300, "nothing has changed, and nobody could have said otherwise"


def test_another_memory_unit_than_before_is_said_once() -> None:
    api = Peer(inventory=Inventory((card(unit=1024),)).encode())
    publisher = Publisher(api)
    publisher.step([card(unit=512)], serving=True)
    publisher.step([card(unit=512)], serving=False)
    ((reason, text),) = api.events
    assert reason == "MemoryUnitChanged"
    assert "one hygon.com/dcu-mem is 512 MiB on this node now, and was 1024 MiB" in text


@pytest.mark.parametrize(
    ("kubelet", "runtime", "says"),
    [
        ("v1.30.9", "containerd://1.7.2", "kubelet v1.30.9"),
        ("v1.31.0", "containerd://1.6.33", "containerd 1.6.33"),
        ("v1.36.1", "cri-o://1.27.1", "cri-o 1.27.1"),
        ("v1.31.0", "containerd://2.2.0", ""),
        ("v1.36.0-embedded", "embedded://1", ""),
        ("", "", ""),
    ],
)
def test_preflight_names_what_is_too_old_once(tmp_path: Path, kubelet: str, runtime: str, says: str) -> None:
    (tmp_path / "pod-resources").mkdir()
    api = Peer(kubelet=kubelet, runtime=runtime)
    preflight = Preflight(api, tmp_path, tmp_path, tmp_path, lambda: ())
    assert [preflight.check() for _ in range(3)] == [not says] * 3
    assert [says in message for _, message in api.events] == ([True] if says else [])


@pytest.mark.parametrize(
    ("runtime", "hints"), [("containerd://1.7.27", 1), ("containerd://2.0.1", 0), ("cri-o://1.28.0", 0)]
)
def test_preflight_logs_once_that_containerd_may_have_cdi_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, runtime: str, hints: int
) -> None:
    (tmp_path / "pod-resources").mkdir()
    api = Peer(kubelet="v1.31.0", runtime=runtime)
    preflight = Preflight(api, tmp_path, tmp_path, tmp_path, lambda: ())
    assert [preflight.check() for _ in range(3)] == [True] * 3
    assert api.events == []
    assert caplog.text.count("enable_cdi = true") == hints


def test_preflight_says_again_what_had_gone(tmp_path: Path) -> None:
    (tmp_path / "pod-resources").mkdir()
    api, others = Peer(), ["another plugin"]
    preflight = Preflight(api, tmp_path, tmp_path, tmp_path, lambda: others)
    assert [preflight.check() for _ in range(2)] == [False, False]
    others.clear()
    assert preflight.check()
    others.append("another plugin")
    assert not preflight.check()
    assert api.events == [("Preflight", "another plugin")] * 2
    assert preflight.problems == ("another plugin",)


def test_preflight_says_that_pods_cannot_be_watched(tmp_path: Path) -> None:
    (tmp_path / "pod-resources").mkdir()
    preflight = Preflight(Peer(up=False), tmp_path, tmp_path, tmp_path, lambda: ["no cgroups"])
    assert not preflight.check()
    assert preflight.problems == ("no cgroups",)
