"""Makes the page's entries, as objects for JSON, from a snapshot of the ledger and the known pods."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from device_plugin.allocator.explain import Explainer
from device_plugin.core.contract.annotations import MAX_COMPUTE_UNITS
from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.grants import CardSize, Grant, Slice, runs
from device_plugin.core.ledger import NodeState, Snapshot
from device_plugin.core.pods import Pod

Row = Mapping[str, Any]
# Most characters of a waiting pod's request, and of its reason: 256 containers with lists of cards have 50,000, and the
# page shows thousands of pods. `vgpu why` and the button of the pod show the whole text.
MOST_TEXT = 500
# States of a slice other than "bound". If several are true, the first is shown.
_STATES = ("outliving", "covered", "unenforced")


class HasNamespace(Protocol):
    """An object that has a namespace."""

    @property
    def namespace(self) -> str: ...


Namespaced = TypeVar("Namespaced", bound=HasNamespace)


def in_turn(found: Iterable[Namespaced], most: int) -> list[Namespaced]:
    """Returns at most `most` objects, from all namespaces in turn, so that a large namespace hides no other."""
    turns = Counter[str]()

    def turn(each: Namespaced) -> int:
        turns[each.namespace] += 1
        return turns[each.namespace]

    return sorted(found, key=turn)[:most]


def node_row(explainer: Explainer, snapshot: Snapshot, name: str, pods: Mapping[str, Pod]) -> Row:
    """Returns the page's entry of a node with an inventory. `pods` are the pods that hold slices on it, by UID."""
    node, state = explainer.node(snapshot, name), snapshot.node(name)
    known = {each.card.uuid: each.card for each in state.cards} if state is not None else {}
    return {
        "serving": node["serving"],
        "complete": True,
        "cards": [_card(card, known[card["uuid"]], pods) for card in node["cards"]],
    }


def granted_row(record: NodeState, pods: Mapping[str, Pod]) -> Row:
    """Returns the page's entry of a node without a known inventory: it shows the cards in grants of known pods."""
    by_card: dict[str, list[dict[str, Any]]] = {}
    sizes: dict[str, CardSize] = {}
    for holder, holding in record.holdings.items():
        pod, grant = pods.get(str(holder)), holding.grant
        if pod is None or grant is None:
            continue
        sizes.update(grant.cards)
        for uuid, container, taken in _taken(grant):
            by_card.setdefault(uuid, []).append(_slice(pod, container, taken))
    return {
        "serving": True,
        "complete": False,
        "cards": [
            _granted_card(uuid, sizes.get(uuid), sorted(slices, key=_slice_order))
            for uuid, slices in sorted(by_card.items())
        ],
    }


def waiting_row(pod: Pod, asks: str, text: str, advice: str, reason: str) -> Row:
    """Returns the page's entry of a pod that waits for a card.

    `asks` is the pod's request as text. `text` explains the reason why the pod waits, `reason` is the reason's short
    name, and `advice` says what would help.
    """
    return {
        "namespace": pod.namespace, "pod": pod.name, "owner": f"{pod.owner} {pod.owner_name}".strip(),
        "asks": _cut(asks), "since": pod.created,
        "reason": reason, "text": _cut(text), "advice": advice,
    }  # fmt: skip


def _cut(text: str) -> str:
    """Returns at most MOST_TEXT characters of a text.

    A text of several words is cut between two of them: the page for a team hides names in texts, and would not
    recognise a part of a name.
    """
    if len(text) <= MOST_TEXT:
        return text
    begin = text[: MOST_TEXT - 1]
    return (begin.rpartition(" ")[0] or begin) + "\N{HORIZONTAL ELLIPSIS}"


def _card(card: Mapping[str, Any], known: Card, pods: Mapping[str, Pod]) -> Row:
    closed = "short" if card["short"] else "cordoned" if card["cordoned"] else ""
    return {
        "uuid": card["uuid"], "model": card["model"], "family": card["family"], "mib": card["memMiB"],
        "freeMiB": card["freeMiB"], "groups": card["coreGroups"], "freeGroups": card["freeCoreGroups"],
        "most": card["maxSlices"], "free": card["freeSlices"],
        "state": closed if card["healthy"] else "unhealthy", "hive": known.hive, "numa": known.numa,
        "slices": [
            {
                "namespace": s["namespace"], "pod": s["pod"], "container": s["container"], "mib": s["memMiB"],
                "cores": runs(s["cores"]), **_of_pod(pods.get(s["uid"])),
                "state": next((state for state in _STATES if s[state]), "" if s["bound"] else "reserved"),
            }
            for s in card["slices"]
        ],
    }  # fmt: skip


def _granted_card(uuid: str, size: CardSize | None, slices: Sequence[Row]) -> Row:
    """Returns a card that is known from grants alone: without a model, and without slices of unknown pods."""
    mib = size.mem_mib if size else sum(s["mib"] for s in slices)
    last = max((run[1] for s in slices for run in s["cores"]), default=0)
    return {
        "uuid": uuid, "model": "", "family": "", "mib": mib, "freeMiB": 0, "freeGroups": 0,
        "groups": min(last + 1, MAX_COMPUTE_UNITS), "most": size.max_slices if size else len(slices),
        "free": 0, "state": "", "hive": "", "numa": -1, "slices": slices,
    }  # fmt: skip


def _slice(pod: Pod, container: str, taken: Slice) -> dict[str, Any]:
    return {
        "namespace": pod.namespace, "pod": pod.name, "container": container, "mib": taken.mem_mib,
        "cores": runs(taken.cores), **_of_pod(pod), "state": "",
    }  # fmt: skip


def _of_pod(pod: Pod | None) -> Row:
    """Returns the time since which a pod holds its slices, and its Job, as far as they are known."""
    if pod is None:
        return {"since": "", "job": ""}
    return {"since": pod.bound, "job": pod.owner_name if pod.owner == "Job" else ""}


def _taken(grant: Grant) -> Iterator[tuple[str, str, Slice]]:
    for container, slices in sorted(grant.containers.items()):
        for each in slices:
            yield each.card, container, each


def _slice_order(row: Row) -> tuple[str, str, str]:
    return row["namespace"], row["pod"], row["container"]
