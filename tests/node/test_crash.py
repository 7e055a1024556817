"""The agent is killed at every single change that it makes on disk; its successor loses nothing and leaks nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.tickets import cdi_name
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


class ByLimits:
    """Pods that ask in their limits, and have the same tickets."""

    def bind(self, parts: Parts, name: str, given: Slice) -> None:
        """The pod is placed here; the kubelet shows no other pod any more."""
        parts.peer.holders.clear()
        parts.hold(parts.bind(name, [given], {MEM: "2", CORES: "1"}), TICKETS)

    def start(self, parts: Parts, name: str) -> str:  # noqa: ARG002 - the kubelet names tickets alone
        """The pod's container starts; returns the name of its CDI device."""
        for resource, tickets in TICKETS.items():
            parts.starts.pre_start(resource, tickets)
        return f"vgpu.io/slice={cdi_name(MEM, TICKETS[MEM])}"

    def end(self, parts: Parts, name: str) -> None:
        """The pod is gone, and its files go."""
        if pod := parts.peer.pods.get(("default", name)):
            parts.end(pod)
        parts.reclaimer.sweep()


class ByClaims:
    """Pods that ask by a ResourceClaim."""

    def bind(self, parts: Parts, name: str, given: Slice) -> None:
        """The pod is placed here."""
        parts.bind_claims(name, {"main": [given]})

    def start(self, parts: Parts, name: str) -> str:
        """The pod's container starts; returns the name of its CDI device."""
        return parts.prepare(parts.peer.pods["default", name]).cdi

    def end(self, parts: Parts, name: str) -> None:
        """The kubelet says that the pod's claim has ended, again and again until it has an answer."""
        parts.claims.unprepare(f"claim-uid-{name}-main", 0.0)
        if pod := parts.peer.pods.get(("default", name)):
            parts.end(pod)


Road = ByLimits | ByClaims


def life(parts: Parts, road: Road) -> str:
    """Pod a ends and its files go; pod b starts. Returns the name of its CDI device."""
    parts.start()
    road.end(parts, "a")
    return road.start(parts, "b")


def agent(folder: Path, peer: Peer) -> Parts:
    """An agent with a folder that stands for the tmpfs of two containers' files."""
    return Parts(folder, peer, room=lambda _: ROOM)


def prepared(folder: Path, road: Road) -> Parts:
    """Pod a runs; pod b is bound, and waits for its start."""
    (folder / "state" / FOLDER).mkdir(parents=True)
    parts = agent(folder, Peer())
    parts.start()
    road.bind(parts, "a", Slice(parts.uuids[0], 2046, (0,)))
    road.start(parts, "a")
    road.bind(parts, "b", Slice(parts.uuids[1], 2046, (7,)))
    return parts


@pytest.mark.no_cover
@pytest.mark.parametrize("road", [ByLimits(), ByClaims()], ids=["limits", "claims"])
def test_killed_at_any_change_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, road: Road) -> None:
    countdown = Countdown(monkeypatch)
    for k in range(1000):
        folder = tmp_path / str(k)
        folder.mkdir()
        parts = prepared(folder, road)
        again = agent(folder, parts.peer)
        countdown.left = k
        try:
            life(again, road)
            survived = True
        except Killed:
            survived = False
        countdown.left = None
        successor = agent(folder, parts.peer)
        name = life(successor, road)
        assert {successor.writable.path(("uid-b", "main"), kind).parent.name for kind in KINDS} == {FOLDER}
        (card,) = rocm.parse(config_of(successor.edits(name))).cards
        assert (card.uuid, card.family.mask) == (successor.uuids[1], 1 << 7), f"killed at change {k}"
        assert [r.pod for r in successor.records.all()] == ["uid-b"], f"killed at change {k}"
        road.end(successor, "b")
        assert not successor.left(), f"killed at change {k}"
        names = sorted(path.name.rpartition("-")[0] for path in (successor.state / FOLDER).iterdir())
        assert names == [kind.spare[:-1] for kind in (PROGRESS, USAGE) for _ in range(ROOM)], (
            f"killed at change {k}"
        )
        if survived:
            assert k > 10
            return
    pytest.fail("the life never ended")
