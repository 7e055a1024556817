"""The agent is killed at every single change that it makes on disk; its successor loses nothing and leaks nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.writable import FOLDER, KINDS, PROGRESS, USAGE
from tests.builders.cards import CORES, MEM
from tests.node.parts import Parts, Peer, config_of
from vgpu_runtime import rocm

TICKETS = {MEM: ["dcu-mem-0", "dcu-mem-1"], CORES: ["dcu-cores-0"]}
ROOM = 2
_CHANGES = ("open", "posix_fallocate", "fchmod", "mkdir", "rename", "replace", "link", "unlink", "rmdir")


class Killed(BaseException):
    """What kill -9 looks like from inside."""


class Countdown:
    """Raises Killed instead of the k-th change on disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for name in _CHANGES:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        for name in ("write_text", "mkdir", "rename", "replace", "unlink", "rmdir", "chmod"):
            monkeypatch.setattr(Path, name, self._counted(getattr(Path, name)))

    def _counted(self, change: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            if self.left is not None:
                if self.left == 0:
                    raise Killed
                self.left -= 1
            return change(*args, **kwargs)

        return counted


def life(parts: Parts) -> None:
    """Pod a ends and its files go; pod b, with the same tickets, starts."""
    parts.start()
    if ("default", "a") in parts.peer.pods:
        parts.end(parts.peer.pods["default", "a"])
    parts.reclaimer.sweep()
    for resource, tickets in TICKETS.items():
        parts.starts.pre_start(resource, tickets)


def agent(folder: Path, peer: Peer) -> Parts:
    """An agent with a folder that stands for the tmpfs of two containers' files."""
    return Parts(folder, peer, room=lambda _: ROOM)


def prepared(folder: Path) -> Parts:
    """Pod a runs; pod b is bound and waits for its tickets."""
    (folder / "state" / FOLDER).mkdir(parents=True)
    parts = agent(folder, Peer())
    parts.start()
    limits = {MEM: "2", CORES: "1"}
    first = parts.bind("a", [Slice(parts.uuids[0], 2046, (0,))], limits)
    parts.hold(first, TICKETS)
    for resource, tickets in TICKETS.items():
        parts.starts.pre_start(resource, tickets)
    parts.peer.holders.clear()
    parts.hold(parts.bind("b", [Slice(parts.uuids[1], 2046, (7,))], limits), TICKETS)
    return parts


@pytest.mark.no_cover
def test_killed_at_any_change_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    countdown = Countdown(monkeypatch)
    for k in range(1000):
        folder = tmp_path / str(k)
        folder.mkdir()
        parts = prepared(folder)
        again = agent(folder, parts.peer)
        countdown.left = k
        try:
            life(again)
            survived = True
        except Killed:
            survived = False
        countdown.left = None
        successor = agent(folder, parts.peer)
        life(successor)
        assert {successor.writable.path(("uid-b", "main"), kind).parent.name for kind in KINDS} == {FOLDER}
        (card,) = rocm.parse(config_of(successor.spec(MEM, TICKETS[MEM]))).cards
        assert (card.uuid, card.family.mask) == (successor.uuids[1], 1 << 7), f"killed at change {k}"
        assert [r.pod for r in successor.records.all()] == ["uid-b"], f"killed at change {k}"
        successor.end(successor.peer.pods["default", "b"])
        successor.reclaimer.sweep()
        assert not successor.left(), f"killed at change {k}"
        names = sorted(path.name.rpartition("-")[0] for path in (successor.state / FOLDER).iterdir())
        assert names == [kind.spare[:-1] for kind in (PROGRESS, USAGE) for _ in range(ROOM)], (
            f"killed at change {k}"
        )
        if survived:
            assert k > 10
            return
    pytest.fail("the life never ended")
