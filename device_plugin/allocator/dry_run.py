"""Dry run: place pods as the allocator would, on this process's own view of the cluster, and undo each decision.

The decisions come from the same allocator code that /filter uses. kube-scheduler offers /filter only nodes whose hosts
have the CPU, memory and disk that a pod requests; a dry run checks the hosts itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from device_plugin.allocator.refit import Refit
from device_plugin.allocator.service import Service
from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.ledger import Reservation
from device_plugin.core.placement import Refusal
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest


class DryRun(Service):
    """Places pods on this process's own ledger. Nothing is sent to the API server."""

    def learn(self) -> None:
        """Compute the tables for the expected requests, by which nodes are scored, as a new allocator does.

        Takes up to 2 s.
        """
        Refit(self._shared, WorkloadTables, lambda: False).step()

    @contextmanager
    def placed(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Iterator[Grant | Refusal]:
        """The pod's grant on one of `nodes`, held until the context ends, or its refusal. Raises LaterError."""
        try:
            yield self.place(pod, request, nodes)
        finally:
            self.take_back(pod.uid)

    def place(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Grant | Refusal:
        """The pod's grant on one of `nodes`, held until `take_back` is called, or its refusal. Raises LaterError.

        Nodes whose hosts lack the CPU, memory or disk that the pod requests are left out.
        """
        hosting = (
            [node for node in nodes if self._has(node, request.host)] if request.host != NOTHING else nodes
        )
        answer = self._allocator.reserve(pod, request, hosting)
        if isinstance(answer, Reservation):
            return answer.grant
        if request.gang is None and len(hosting) != len(nodes):
            compared = self._allocator.placer.place(self._allocator.in_group(pod, request), nodes)
            if isinstance(compared, Refusal):
                return compared
        return answer()

    def more(self, pod: Pod, request: PodRequest, nodes: Sequence[str], most: int) -> int:
        """The number of further copies of this pod that fit now, at most `most`; their reservations are released."""
        made: list[str] = []
        try:
            while len(made) < most:
                uid = f"{pod.uid}+{len(made)}"
                another = msgspec.structs.replace(pod, uid=uid, name=f"{pod.name}+{len(made)}")
                made.append(uid)
                if isinstance(self.place(another, replace(request, pod=uid), nodes), Refusal):
                    return len(made) - 1
            return most
        finally:
            for uid in made:
                self._view.pod_news.gone(uid, ended=True)

    def take_back(self, uid: str) -> None:
        """Release the pod's reservation."""
        self._allocator.release(uid)

    def _has(self, node: str, asked: HostAmounts) -> bool:
        """True if the node's host has these amounts free; an amount of 0 always fits, as in kube-scheduler."""
        state = self._view.ledger.node(node)
        if state is None:
            return False
        wanted = (asked.cpu_milli, asked.memory_mib, asked.disk_mib)
        left = (state.left.cpu_milli, state.left.memory_mib, state.left.disk_mib)
        return all(not want or want <= free for want, free in zip(wanted, left, strict=True))
