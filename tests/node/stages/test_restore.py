"""Records that are damaged on the disk: they end nothing, and are made anew from the grants of their pods."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.slices.records import RECORD, Records
from device_plugin.node.stages import allocate
from tests.builders.cards import MEM
from tests.core.contract.texts import JSON, changed
from tests.node.parts import TICKETS, Parts, Peer

KEY = ("uid-a", "main")


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """A node with one container running."""
    parts = Parts(tmp_path, Peer())
    parts.start()
    parts.peer.living.add(parts.run().uid)
    return parts


def damage(parts: Parts, path: list[Any], value: object) -> None:
    file = parts.records.folder(*KEY) / RECORD
    file.write_text(changed(file.read_text(), path, value))


WRONG = [
    ([], []),
    (["pod"], 5),
    (["pod"], "uid-b"),
    (["container"], None),
    (["slices"], []),
    (["slices"], {"a": 1}),
    (["slices", 0], "GPU"),
    (["slices", 0, "cores"], ["0", "1"]),
    (["slices", 0, "memMiB"], "2046"),
    (["names"], {"hygon.com/dcu-mem": 7}),
    (["tickets"], {"hygon.com/dcu-mem": 7}),
    (["tickets"], {"hygon.com/dcu-mem": [1, 2]}),
    (["vendorIds"], {"GPU": "one"}),
    (["vendorIds"], ...),
    (["v"], 2),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_record_that_cannot_be_read_is_made_anew_from_the_grant(
    parts: Parts, tmp_path: Path, path: list[Any], value: object
) -> None:
    before = parts.records.get(*KEY)
    files = {
        file: file.read_bytes() for file in parts.left() if file.name != RECORD and "cdi" not in str(file)
    }
    if path:
        damage(parts, path, value)
    else:
        (parts.records.folder(*KEY) / RECORD).write_text(json.dumps(value))
    successor = Parts(tmp_path, parts.peer)
    successor.start()
    successor.reclaimer.restore()
    restored = successor.records.get(*KEY)
    assert restored is not None
    assert before is not None
    assert (restored.slices, restored.vendor_ids, restored.pod_name) == (
        before.slices,
        before.vendor_ids,
        "a",
    )
    (event,) = successor.peer.events
    assert event[0] == "RecordDamaged"
    assert "container main of pod uid-a" in event[1]
    assert all(file.read_bytes() == content for file, content in files.items()), "its container may run"
    # It starts again, and ends.
    successor.starts.pre_start(MEM, TICKETS)
    successor.end(successor.peer.pods["default", "a"])
    assert successor.reclaimer.sweep() == 1
    assert not successor.left()


def test_a_damaged_record_that_nobody_made_anew_is_still_known_at_the_next_start(
    parts: Parts, tmp_path: Path
) -> None:
    damage(parts, ["slices"], 7)
    for _ in range(3):
        successor = Records(tmp_path / "state")
        successor.load()
        assert list(successor.damaged()) == [KEY]


def test_what_is_left_of_a_damaged_record_goes_with_its_pod(parts: Parts, tmp_path: Path) -> None:
    damage(parts, ["slices"], 7)
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    successor = Parts(tmp_path, parts.peer)
    successor.start()
    successor.reclaimer.restore()
    assert successor.left(), "its processes may use its files"
    successor.peer.living.clear()
    successor.now += 60
    successor.reclaimer.restore()
    assert not successor.left()
    assert not successor.records.damaged()


def successor_of(parts: Parts, tmp_path: Path) -> Parts:
    """The next agent, which finds the record damaged; the pod was force-deleted and its processes run on."""
    damage(parts, ["slices"], 7)
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    successor = Parts(tmp_path, parts.peer)
    successor.start()
    return successor


def test_a_record_that_is_missing_beside_its_config_is_lost_and_made_anew(
    parts: Parts, tmp_path: Path
) -> None:
    before = parts.records.get(*KEY)
    (parts.records.folder(*KEY) / RECORD).unlink()
    after = Parts(tmp_path, parts.peer)
    after.start()
    assert after.reclaimer.closed(after.uuids) == {after.uuids[0]}
    after.reclaimer.restore()
    restored = after.records.get(*KEY)
    assert before is not None
    assert restored is not None
    assert restored.slices == before.slices


def test_nothing_starts_beside_a_process_whose_record_is_damaged(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.0)
    after = successor_of(parts, tmp_path)
    first, second = after.uuids
    for name, card in (("b", first), ("c", second)):
        pod = after.bind(name, [Slice(card, 2046, (5, 6))], {MEM: "2"})
        after.hold(pod, {MEM: [f"dcu-mem-{name}"]})
    for _ in range(3):
        after.reclaimer.restore()
        assert after.reclaimer.closed(after.uuids) == {first}
        with pytest.raises(NotNowError, match=f"container main of pod uid-a is damaged, so card {first}"):
            after.starts.pre_start(MEM, ["dcu-mem-b"])
    after.starts.pre_start(MEM, ["dcu-mem-c"])
    after.peer.living.clear()
    after.reclaimer.restore()
    assert not after.reclaimer.closed(after.uuids)
    after.starts.pre_start(MEM, ["dcu-mem-b"])


@pytest.mark.parametrize("text", ["", "rubbish", "version = 2\npod = p\ncontainer = c\n", None])
def test_where_not_even_its_cards_are_known_all_of_them_are_closed(
    parts: Parts, tmp_path: Path, text: str | None
) -> None:
    config = parts.records.folder(*KEY) / "vgpu.conf"
    config.unlink()
    if text is not None:
        config.write_text(text)
    after = successor_of(parts, tmp_path)
    assert after.reclaimer.closed(after.uuids) == set(after.uuids)


def test_a_card_that_this_agent_does_not_know_may_be_any(parts: Parts, tmp_path: Path) -> None:
    config = parts.records.folder(*KEY) / "vgpu.conf"
    config.write_text(config.read_text().replace("uuid = ", "uuid = x"))
    after = successor_of(parts, tmp_path)
    assert after.reclaimer.closed(after.uuids) == set(after.uuids)


def test_a_container_that_had_its_slices_starts_again_beside_one_whose_record_is_damaged(
    parts: Parts, tmp_path: Path
) -> None:
    pod = parts.bind("b", [Slice(parts.uuids[0], 2046, (5, 6))], {MEM: "2"})
    parts.hold(pod, {MEM: ["dcu-mem-5"]})
    parts.starts.pre_start(MEM, ["dcu-mem-5"])
    after = successor_of(parts, tmp_path)
    after.starts.pre_start(MEM, ["dcu-mem-5"])


def test_a_pod_of_the_same_name_lends_its_grant_to_nobody(parts: Parts, tmp_path: Path) -> None:
    damage(parts, ["slices"], 7)
    successor = Parts(tmp_path, parts.peer)
    successor.start()
    parts.peer.pods["default", "a"] = parts.bind("other", [Slice(parts.uuids[1], 2046, (3,))], {MEM: "2"})
    successor.reclaimer.restore()
    assert successor.records.get(*KEY) is None


@settings(max_examples=200)
@given(JSON, st.sampled_from([path for path, _ in WRONG]))
def test_any_json_in_any_place_of_a_record_keeps_no_agent_from_starting(
    parts: Parts, tmp_path: Path, value: object, path: list[Any]
) -> None:
    file = parts.records.folder(*KEY) / RECORD
    sound = file.read_text()
    file.write_text(changed(sound, path, value) if path else json.dumps(value))
    Records(tmp_path / "state").load()
    file.write_text(sound)
