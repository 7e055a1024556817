"""Allocate: the two RPCs by which a container gets its slices.

The kubelet does not say for which pod it calls Allocate, and the agent must not guess the pod. So Allocate does nothing
that can fail: it returns a CDI device named after the tickets (device IDs). PreStartContainer gets the same tickets
later, when the kubelet already shows which container holds them. So PreStartContainer reads the grant of the
container's pod, and writes the files that the runtime mounts next.
"""

import time
from collections.abc import Collection

from device_plugin.core.contract.events import Event
from device_plugin.core.machine import Holder, KubeletError
from device_plugin.node.api import NodeApi
from device_plugin.node.ports import PodResources
from device_plugin.node.slices import admission
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.slices.holders import Holders
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Records
from device_plugin.node.slices.tickets import cdi_name
from device_plugin.node.stages.inject import KIND
from device_plugin.node.stages.start import Starter, Waiting

# Seconds to wait in PreStartContainer: the kubelet gives it 30 s, and after a failure backs off for much longer.
WAIT_SECONDS = 10.0
# Each waiting call has one of the 24 threads of its plugin's server. Allocate must never queue behind them, because the
# kubelet calls it for one pod at a time. Further calls fail at once, and the kubelet repeats them.
MOST_WAITING = 16


class ContainerStarts:
    """Serves Allocate and PreStartContainer, from any number of threads."""

    def __init__(
        self, api: NodeApi, kubelet: PodResources, pods: NodePods, records: Records, starter: Starter
    ) -> None:
        self._api = api
        self._holders = Holders(kubelet)
        self._pods = pods
        self._records = records
        self._starter = starter
        self._given: dict[str, dict[str, float]] = {}
        self._reported: set[str] = set()
        self._waiting = Waiting(MOST_WAITING)

    def stop(self) -> None:
        """Make waiting calls fail; the kubelet repeats the calls when the next agent has started."""
        self._waiting.stop()

    def allocate(self, resource: str, tickets: Collection[str]) -> str:
        """The full name of the CDI device for these tickets (the device IDs of one container). Never fails."""
        self._holders.allocate(resource, tickets)
        now = time.monotonic()
        self._given.setdefault(resource, {}).update(dict.fromkeys(tickets, now))
        return f"{KIND}={cdi_name(resource, tickets)}"

    def given(self, resource: str, seconds: float) -> set[str]:
        """The tickets (device IDs) that Allocate saw in the last `seconds` and whose container has not started yet."""
        since = time.monotonic() - seconds
        return {ticket for ticket, at in list(self._given.get(resource, {}).items()) if at >= since}

    def pre_start(self, resource: str, tickets: Collection[str]) -> None:
        """Write the files of the container with these tickets (device IDs).

        Raises NotNowError; the kubelet then tries again. If the reason may end by itself soon, the call first waits for
        that, up to WAIT_SECONDS.
        """
        wanted = frozenset(tickets)
        name = cdi_name(resource, tickets)
        self._waiting.run(lambda anew: self._try(resource, wanted, anew=anew), WAIT_SECONDS, name)

    def _try(self, resource: str, tickets: frozenset[str], *, anew: bool) -> None:
        """Write the container's files if `resource` is its first resource (the carrier). Raises NotNowError.

        With `anew` the kubelet is asked which container has the tickets (device IDs), even if that is known.
        """
        holder = self._holder(resource, tickets, anew=anew)
        # Otherwise there is nothing to do: the kubelet calls for the carrier as well before each start of the
        # container, and that call writes what belongs to all of its resources.
        if resource == next(iter(holder.tickets)):
            self._starter.start(admission.read(holder, self._api, self._records, self._pods), resource)
        for ticket in tickets:
            self._given.get(resource, {}).pop(ticket, None)

    def _holder(self, resource: str, tickets: frozenset[str], *, anew: bool) -> Holder:
        """The only container with exactly these tickets (device IDs) of `resource`.

        With `anew` the kubelet is asked even if the container is known. Raises NotNowError if there is no such
        container, or several.
        """
        try:
            holders = self._holders.of(resource, tickets, anew=anew)
        except KubeletError as error:
            raise NotNowError(str(error), waiting=True) from error
        if not holders:
            raise NotNowError(
                f"the kubelet does not show yet which container holds these tickets of {resource}: it tries again"
                " by itself; if that lasts for minutes, delete the pod",
                waiting=True,
            )
        if len(holders) > 1:
            self._duplicate(holders)
        return holders[0]

    def _duplicate(self, holders: Collection[Holder]) -> None:
        names = " and ".join(sorted(f"{h.namespace}/{h.pod}" for h in holders))
        text = f"the kubelet gave the same tickets to {names}: delete one of these pods"
        if text not in self._reported:
            self._reported.add(text)
            self._api.node_event(Event.DUPLICATE_TICKETS, text)
        raise NotNowError(text)
