"""The store of the stub API server: pods, their watches, and every Binding, which is checked at the end."""

import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError
from device_plugin.core.ledger import Ledger
from hack.bench.extender.api_objects import PodTexts, hopeless
from hack.bench.extender.claim_store import ClaimStore
from hack.bench.extender.cluster_model import ClusterModel, uid

# Number of pods that exist beyond the last bound pod.
AHEAD = 64
# Pods in each part of a list.
PART = 256
Tell = Callable[[bytes], None]
Bound = tuple[str, str]
"""Node and grant of a bound pod."""
Binding = tuple[int, str, int | None]
"""The pod's number, the text of its grant, and the number of the pod that was deleted then, if any."""


class NotBoundError(Exception):
    """The Binding is refused: the pod is bound already, or has another UID."""


class PodStore:
    """Pods by number. For each Binding it deletes a random pod and creates a new one, so that the fill is constant."""

    def __init__(self, workload: ClusterModel, grants: list[Grant]) -> None:
        self._texts = PodTexts(workload)
        self.claims = ClaimStore(workload, len(grants)) if workload.claims else None
        """The claims of the pods; None if they ask in their limits."""
        self._hopeless = hopeless(workload)
        self._filled = len(grants)
        self._rng = random.Random(workload.seed)
        self._lock = threading.Lock()
        self._pods: dict[int, Bound | None] = {n: (g.node, g.encode()) for n, g in enumerate(grants)}
        self._live = list(self._pods)
        self._created = len(grants)
        self._version = 1
        self._watches: list[Tell] = []
        self._history: list[Binding] = []

    def listed(self) -> Iterator[bytes]:
        """A PodList, in parts."""
        with self._lock:
            pods, version = list(self._pods.items()), self._version
        yield b'{"metadata":{"resourceVersion":"%d"},"items":[' % version + b",".join(self._hopeless)
        for first in range(0, len(pods), PART):
            texts = [
                self._texts.pod(number, 1, bound, "Running" if bound else "Pending")
                for number, bound in pods[first : first + PART]
            ]
            yield (b"," if first or self._hopeless else b"") + b",".join(texts)
        yield b"]}"

    def pod(self, number: int, *, touched: bool = False) -> bytes | None:
        """The pod's present JSON; None without the pod. If `touched`, the watches are sent a new version of it."""
        with self._lock:
            if number not in self._pods:
                return None
            if touched:
                self._tell("MODIFIED", number, self._pods[number])
            return self._texts.pod(number, self._version, self._pods[number])

    def watch(self, version: int, tell: Tell) -> bool:
        """Call `tell` with every change until it raises OSError; False if there were changes after `version`."""
        with self._lock:
            if version != self._version:
                return False
            self._watches.append(tell)
            self._create(self._filled + AHEAD)
            return True

    def bind(self, body: bytes) -> None:
        """Bind a pod, delete a random bound pod and create a new pod, all shown to watches. Raises NotBoundError."""
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

    def history(self) -> list[Binding]:
        """All Bindings so far."""
        with self._lock:
            return list(self._history)

    def faults(self) -> list[str]:
        """Texts about bound pods whose ResourceClaims were not written."""
        if self.claims is None:
            return []
        with self._lock:
            live, bound = set(self._live), [number for number, *_ in self._history]
        return self.claims.unprotected(number for number in bound if number in live)

    def _end_one(self) -> int | None:
        if len(self._live) <= self._filled:
            return None
        position = self._rng.randrange(len(self._live))
        self._live[position], self._live[-1] = self._live[-1], self._live[position]
        number = self._live.pop()
        self._tell("DELETED", number, self._pods.pop(number))
        if self.claims is not None:
            self.claims.end(number)
        return number

    def _create(self, end: int) -> None:
        for number in range(self._created, end):
            self._pods[number] = None
            if self.claims is not None:
                self.claims.create(number)
            self._tell("ADDED", number, None)
        self._created = max(self._created, end)

    def _tell(self, kind: str, number: int, bound: Bound | None) -> None:
        self._version += 1
        # A kubelet reports the end of a pod before the pod object is removed.
        phase = "Succeeded" if kind == "DELETED" else "Pending"
        pod = self._texts.pod(number, self._version, bound, phase)
        for tell in list(self._watches):
            try:
                tell(b'{"type":"%b","object":%b}\n' % (kind.encode(), pod))
            except OSError:  # the client has closed the connection
                self._watches.remove(tell)


def overlaps(workload: ClusterModel, before: Sequence[Grant], history: Iterable[Binding]) -> list[str]:
    """Texts about Bindings whose grant is malformed or overlaps another pod's. `before` are the first grants."""
    ledger = Ledger()
    for name in workload.names():
        ledger.set_node(name, workload.inventory(name))
    for grant in before:
        ledger.hold(grant)
    found = []
    for number, text, ended in history:
        try:
            grant = Grant.decode(text)
        except AnnotationError as error:
            found.append(f"pod-{number}: {error}")
            continue
        if grant.pod != uid(number):
            found.append(f"pod-{number} has the grant of {grant.pod}")
        ledger.hold(grant)
        found += [
            f"pod-{number} and {conflict.other} hold {conflict.over.value} of card {conflict.card}"
            for conflict in ledger.in_the_way(grant)
        ]
        if ended is not None:
            ledger.release(uid(ended))
    return found
