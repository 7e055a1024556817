"""Whether a container may have its slices is decided by records, cards and pods alone, and nothing is written."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices import admission
from device_plugin.node.slices.admission import NotNowError, TakenError, Wanted
from device_plugin.node.slices.records import Record
from tests.builders.cards import MEM
from tests.node.parts import TICKETS, Parts, Peer


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """A node with pod `a`, whose container runs."""
    made = Parts(tmp_path, Peer())
    made.start()
    made.peer.living.add(made.run().uid)
    return made


def admitted(parts: Parts, wanted: Wanted) -> Sequence[Record]:
    before = {path: path.stat().st_mtime_ns for path in parts.left()}
    found = admission.admit(wanted, parts.cards(), parts.records, parts.active)
    assert {path: path.stat().st_mtime_ns for path in parts.left()} == before
    return found


def wanted_by_a(parts: Parts, *tickets: str) -> Wanted:
    return admission.from_pod(parts.peer.pods["default", "a"], "main", {MEM: frozenset(tickets)})


def wanted_by_b(parts: Parts, tickets: Sequence[str], *cores: int) -> Wanted:
    pod = parts.bind("b", [Slice(parts.uuids[0], 2046, cores)], {MEM: "2"})
    return admission.from_pod(pod, "main", {MEM: frozenset(tickets)})


def test_a_container_that_starts_again_removes_nothing_unless_its_tickets_are_others(parts: Parts) -> None:
    assert admitted(parts, wanted_by_a(parts, *TICKETS)) == []
    assert admitted(parts, wanted_by_a(parts, "dcu-mem-7")) == [parts.records.get("uid-a", "main")]


def test_its_record_is_that_of_its_start(parts: Parts) -> None:
    ids = {parts.uuids[0]: 0}
    assert wanted_by_a(parts, *TICKETS).record(ids) == parts.records.get("uid-a", "main")


def test_a_slice_is_taken_while_processes_of_another_pod_run_on_it(parts: Parts) -> None:
    wanted = wanted_by_b(parts, ["dcu-mem-8"], 1, 2)
    with pytest.raises(TakenError, match="default/a") as error:
        admitted(parts, wanted)
    assert error.value.sizes == {parts.uuids[0]: parts.cards()[parts.uuids[0]].card.size}
    parts.end(parts.peer.pods["default", "a"])
    assert admitted(parts, wanted) == []


def test_tickets_are_taken_over_once_nothing_of_their_last_pod_is_left(parts: Parts) -> None:
    wanted = wanted_by_b(parts, TICKETS, 8, 9)
    with pytest.raises(NotNowError, match="its tickets are still used by container main of pod default/a"):
        admitted(parts, wanted)
    parts.end(parts.peer.pods["default", "a"])
    assert admitted(parts, wanted) == [parts.records.get("uid-a", "main")]
