"""The store of the stub API server: pods, their watches, and every Binding, which is checked at the end."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from device_plugin.core import annotations
from device_plugin.core.grants import Grant
from hack.bench.extender import witness
from hack.bench.extender.api_objects import PodTexts
from hack.bench.extender.cluster_model import ClusterModel, uid

# Pods that are created ahead of the one that is bound.
AHEAD = 64
Tell = Callable[[bytes], None]
Bound = tuple[str, str]
"""Node and grant of a bound pod."""


class NotBoundError(Exception):
    """The Binding is refused: the pod is bound already, or is another one."""


class PodStore:
    """Pods by number. For each Binding it deletes a random pod and creates a new one, so that the fill is constant."""

    def __init__(self, workload: ClusterModel, grants: list[Grant]) -> None:
        self._texts = PodTexts(workload)
        self._workload = workload
        self._before = grants
        self._rng = random.Random(workload.seed)
        self._lock = threading.Lock()
        self._pods: dict[int, Bound | None] = {n: (g.node, g.encode()) for n, g in enumerate(grants)}
        self._live = list(self._pods)
        self._created = len(grants)
        self._version = 1
        self._watches: list[Tell] = []
        self._history: list[tuple[int, str, int | None]] = []

    def listed(self) -> Iterator[bytes]:
        """A PodList, in parts."""
        with self._lock:
            pods, version = dict(self._pods), self._version
        yield b'{"metadata":{"resourceVersion":"%d"},"items":[' % version
        for position, (number, bound) in enumerate(pods.items()):
            yield (b"," if position else b"") + self._texts.pod(number, 1, bound)
        yield b"]}"

    def pod(self, number: int) -> bytes | None:
        """The pod as it is now; None if there is none."""
        with self._lock:
            known = number in self._pods
            return self._texts.pod(number, self._version, self._pods[number]) if known else None

    def touch(self, number: int) -> bytes | None:
        """Send a watch event of the pod, as after a write to its annotations, and return it; None if there is none."""
        with self._lock:
            if number not in self._pods:
                return None
            self._tell("MODIFIED", number, self._pods[number])
            return self._texts.pod(number, self._version, self._pods[number])

    def watch(self, version: int, tell: Tell) -> bool:
        """Tell of every change from now on; False if there were others after `version`."""
        with self._lock:
            if version != self._version:
                return False
            self._watches.append(tell)
            self._create(len(self._before) + AHEAD)
            return True

    def unwatch(self, tell: Tell) -> None:
        """Remove a watch."""
        with self._lock:
            self._watches.remove(tell)

    def bind(self, body: bytes) -> None:
        """Take a Binding, and tell: that pod bound, another one gone, a third one new. Raises NotBoundError."""
        binding: Any = json.loads(body)
        meta, node = binding["metadata"], binding["target"]["name"]
        grant = meta["annotations"][annotations.GRANT]
        number = int(meta["name"].removeprefix("pod-"))
        with self._lock:
            self._create(number + 1)
            if meta["uid"] != uid(number) or self._pods.get(number, ("", "")):
                raise NotBoundError(
                    f"{meta['name']} of uid {meta['uid']} is bound already, gone, or another one"
                )
            self._pods[number] = (node, grant)
            self._live.append(number)
            self._tell("MODIFIED", number, (node, grant))
            self._history.append((number, grant, self._end_one()))
            self._create(number + 1 + AHEAD)

    def wrongs(self) -> list[str]:
        """The faults that the witness finds in all Bindings so far."""
        return witness.overlaps(self._workload, self._before, self.history())

    def history(self) -> list[tuple[int, str, int | None]]:
        """For each Binding so far the pod's number, its grant, and which pod was deleted after it."""
        with self._lock:
            return list(self._history)

    def _end_one(self) -> int | None:
        if len(self._live) <= len(self._before):
            return None
        position = self._rng.randrange(len(self._live))
        self._live[position], self._live[-1] = self._live[-1], self._live[position]
        number = self._live.pop()
        self._tell("DELETED", number, self._pods.pop(number))
        return number

    def _create(self, end: int) -> None:
        for number in range(self._created, end):
            self._pods[number] = None
            self._tell("ADDED", number, None)
        self._created = max(self._created, end)

    def _tell(self, kind: str, number: int, bound: Bound | None) -> None:
        self._version += 1
        # A kubelet reports the end of a pod before its object is removed.
        phase = "Succeeded" if kind == "DELETED" else "Pending"
        pod = self._texts.pod(number, self._version, bound, phase)
        for tell in self._watches:
            with suppress(OSError):  # a watch that ends just now
                tell(b'{"type":"%b","object":%b}\n' % (kind.encode(), pod))
