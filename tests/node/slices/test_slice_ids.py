"""The ids of slices: given by the vendors that need ids, kept apart, and found in the files of a container."""

from pathlib import Path

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.slice_ids import SliceIds
from tests.node.parts import Parts, Peer

KEY = ("uid-a", "main")
OTHER = ("uid-b", "main")
AMD = "version: v1\ncards: [{preset: amd-60cu-16gib, count: 1}]"


def started(folder: Path) -> tuple[Parts, SliceIds]:
    """A node on which the container of pod `a` runs, on the first card."""
    parts = Parts(folder, Peer())
    parts.start()
    parts.run()
    return parts, SliceIds(parts.records, parts.cards)


def test_an_id_of_another_container_is_not_given_again(tmp_path: Path) -> None:
    parts, ids = started(tmp_path)
    record = parts.records.get(*KEY)
    assert record is not None
    given = ids.claim(OTHER, [Slice(parts.uuids[0], 2046, (8, 9)), Slice(parts.uuids[1], 2046, (0,))])
    assert set(given) == set(parts.uuids[:2])
    assert given[parts.uuids[0]] != record.vendor_ids[parts.uuids[0]]


def test_a_released_id_rests_although_no_record_has_it(tmp_path: Path) -> None:
    parts, ids = started(tmp_path)
    record = parts.records.get(*KEY)
    assert record is not None
    parts.records.forget(*KEY)
    ids.release(record)
    taken = {ids.claim(OTHER, record.slices)[parts.uuids[0]] for _ in range(4)}
    assert record.vendor_ids[parts.uuids[0]] not in taken


def test_a_vendor_without_ids_gives_none(tmp_path: Path) -> None:
    parts = Parts(tmp_path, Peer(), AMD)
    parts.start()
    slices = [Slice(parts.uuids[0], 2046, (0, 1))]
    ids = SliceIds(parts.records, parts.cards)
    assert (ids.claim(OTHER, slices), ids.read(OTHER, slices)) == ({}, {})


def test_the_ids_of_a_lost_record_are_those_of_its_files(tmp_path: Path) -> None:
    parts, ids = started(tmp_path)
    record = parts.records.get(*KEY)
    assert record is not None
    assert ids.read(KEY, record.slices) == record.vendor_ids
    assert ids.read(OTHER, record.slices) == {}, "it has no files"
