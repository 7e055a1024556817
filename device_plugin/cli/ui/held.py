"""Reads what is used of the slices that are held, as `vgpu cards` does, and makes the page's entries of it.

The figures are those of the commands: bytes in use, busy core groups, and the bytes that are granted and not in use,
all bytes of an idle slice included. A figure that is not known is None.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from device_plugin.cli.reading import held_use
from device_plugin.cli.reading.held_use import HeldUse, SliceKey, SliceUse
from device_plugin.cli.ui.asking import Asking
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.rows import Row
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB
from device_plugin.core.ledger import NodeState
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import ApiError

# Seconds between two questions for the use of slices; the start of an idle time is sent in steps of a minute.
ASK_SECONDS, IDLE_STEP = 10.0, 60.0
# Most owners of each namespace that the page gets, those that leave most unused first, and most notes. A number for all
# namespaces together would say something about those that a person may not see.
MOST_OWNERS, MOST_NOTES = 20, 3


class UseReader(Protocol):
    """Reads the use of slices. `notes` has a sentence for each question that was not answered the last time."""

    @property
    def notes(self) -> Sequence[str]:
        """A sentence for each question that was not answered the last time."""

    def read(self, nodes: Collection[str]) -> Mapping[SliceKey, SliceUse]:
        """Returns the use of slices on these nodes, as far as it is known. Raises ApiError."""


class HeldSlice(NamedTuple):
    """A slice that a known pod holds, and what is used of it."""

    node: str
    pod: Pod
    container: str
    part: Slice
    use: SliceUse | None

    @property
    def held(self) -> HeldUse:
        """Returns the use of the slice; unused memory is counted from the granted size."""
        return held_use.of_slice(self.part, self.use)


class HeldUses(Asking):
    """Asks for the use of slices every ASK_SECONDS while a browser shows the page, and puts the use into the entries.

    `held` returns the states of the nodes in the ledger by name, and the known pods by UID.
    """

    def __init__(
        self, reader: UseReader, entries: PageEntries,
        held: Callable[[], tuple[Mapping[str, NodeState], Mapping[str, Pod]]], is_open: Callable[[], bool],
    ) -> None:  # fmt: skip
        super().__init__("ui-use", is_open)
        self._reader = reader
        self._entries = entries
        self._held = held

    def step(self) -> float:
        """Read the use of all held slices once, and put this use into the page's entries.

        Returns the seconds until the next question.
        """
        records, pods = self._held()
        parts = {name: [*_slices(name, record, pods)] for name, record in records.items()}
        nodes = {name for name, found in parts.items() if found}
        try:
            uses, notes = self._reader.read(nodes), self._reader.notes
        except ApiError as error:
            uses, notes = {}, [f"use is not known: {error}"]
        now = time.time()
        used = {name: [with_use(each, uses) for each in found] for name, found in parts.items()}
        entries: dict[str, Row] = {}
        for name in nodes:
            entries |= use_entries(name, used[name], now)
        self._entries.replace("use", entries)
        self._entries.replace("owner", owner_entries([each for found in used.values() for each in found]))
        left = [f"and {len(notes) - MOST_NOTES} more"] if len(notes) > MOST_NOTES else []
        self._entries.put("about", {"use": {"notes": [*notes[:MOST_NOTES], *left]}})
        return ASK_SECONDS if nodes else 1.0


def with_use(each: HeldSlice, uses: Mapping[SliceKey, SliceUse]) -> HeldSlice:
    """Returns the slice with its use, as far as `uses` has it."""
    return each._replace(use=uses.get((each.pod.namespace, each.pod.name, each.container, each.part.card)))


def _slices(name: str, record: NodeState, pods: Mapping[str, Pod]) -> Iterator[HeldSlice]:
    """Yields the slices that known pods hold on a node."""
    for holder, holding in record.holdings.items():
        pod, grant = pods.get(str(holder)), holding.grant
        if pod is not None and grant is not None:
            for container, parts in grant.containers.items():
                yield from (HeldSlice(name, pod, container, part, None) for part in parts)


def use_entries(node: str, slices: Collection[HeldSlice], now: float) -> Mapping[str, Row]:
    """Returns the page's entries of the use on a node, one for each namespace; the key is `NODE NAMESPACE`.

    The use is divided so because a person may see the use of some namespaces only. Each entry has, by card and
    POD/CONTAINER: MiB in use, busy core groups, unused MiB, and since when the slice is idle. Slices of which nothing
    is known are left out.
    """
    found: dict[str, dict[str, dict[str, object]]] = defaultdict(lambda: defaultdict(dict))
    for each in slices:
        if each.use is not None and each.held != held_use.UNKNOWN:
            on_card = found[f"{node} {each.pod.namespace}"][each.part.card]
            on_card[f"{each.pod.name}/{each.container}"] = _figures(each.held, each.use, now)
    return found


def _figures(held: HeldUse, use: SliceUse, now: float) -> list[float | None]:
    since = (now - (use.idle or 0.0)) // IDLE_STEP * IDLE_STEP if held.idle else 0
    return [_mib(held.used), None if held.busy is None else round(held.busy, 1), _mib(held.unused), since]


def owner_entries(slices: Collection[HeldSlice]) -> Mapping[str, Row]:
    """Returns an entry of the page for each owner of pods with slices: what it holds, and how much is not in use.

    In each namespace, only the MOST_OWNERS owners with the most unused memory have an entry.
    """
    by_owner: dict[tuple[str, str], list[HeldSlice]] = {}
    for each in slices:
        by_owner.setdefault((each.pod.namespace, _owner_of(each.pod)), []).append(each)
    uses = {owner: held_use.together(each.held for each in parts) for owner, parts in by_owner.items()}
    found: dict[str, Row] = {}
    counts = Counter[str]()
    for owner in sorted(uses, key=lambda owner: (-(uses[owner].unused or 0.0), owner)):
        counts[owner[0]] += 1
        if counts[owner[0]] <= MOST_OWNERS:
            found["/".join(owner)] = _owner_entry(owner, by_owner[owner], uses[owner])
    return found


def _owner_entry(owner: tuple[str, str], slices: Collection[HeldSlice], use: HeldUse) -> Row:
    return {
        "namespace": owner[0], "owner": owner[1], "slices": len(slices), "idle": use.idle,
        "heldMiB": sum(each.part.mem_mib for each in slices), "usedMiB": _mib(use.used), "unusedMiB": _mib(use.unused),
    }  # fmt: skip


def _owner_of(pod: Pod) -> str:
    return f"{pod.owner} {pod.owner_name}" if pod.owner else f"Pod {pod.name}"


def _mib(size: float | None) -> int | None:
    return None if size is None else round(size / MIB)
