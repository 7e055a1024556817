"""Checks of nodes: of their agents and cards, of other device plugins, and of memory units."""

from collections.abc import Iterator, Mapping, Sequence

from device_plugin.cli.check.installation import (
    NODE_AGENTS,
    CheckState,
    Finding,
    Installation,
    few,
    pod_spec,
    problem,
    unknown,
)
from device_plugin.cli.reading.cluster import CardReading, NodeReading
from device_plugin.core import pages
from device_plugin.core.contract.cards import SliceState, memory_units
from device_plugin.core.pods import Node
from device_plugin.core.requests import resource_names
from device_plugin.kube.api import AGENT_LABELS, Object

# Most characters of an event's text that are shown: everybody who may write events can write a long one.
MOST_TEXT = 500


def agents(installed: Installation) -> Iterator[Finding]:
    """Checks that every node with cards has an agent that runs and serves; reports agents' Preflight events too."""
    yield from unknown(installed, "agents", "nodes", "agents", "notices", "workloads")
    daemon_sets = [found for name in NODE_AGENTS if (found := installed.workload(name))]
    if installed.nodes is not None and daemon_sets:
        yield from _labelled(
            installed.nodes, [pod_spec(each).get("nodeSelector") or {} for each in daemon_sets]
        )
    running = {node_of(each) for each in installed.agents or () if is_ready(each)}
    logs = f"see the log of its agent: kubectl -n {installed.namespace} logs -l '{AGENT_LABELS}'"
    inventories = installed.inventories()
    silent = [name for name, inventory in inventories.items() if not inventory.serving]
    if silent:
        yield problem("agents", f"not serving: {few(silent)}; these nodes get no new slices", logs)
    if installed.agents is not None:
        stale = [name for name, inventory in inventories.items() if name not in running and inventory.serving]
        if stale:
            yield problem(
                "agents", f"no agent is Ready on {few(stale)}, so their inventories may be out of date",
                f"see why: kubectl -n {installed.namespace} get pods -o wide. Of a node that has no cards"
                " any more, remove the annotation vgpu.io/cards",
            )  # fmt: skip
        without = sorted(running - inventories.keys() - {""}) if installed.nodes is not None else []
        if without:
            yield problem(
                "agents", f"no inventory of {few(without)} can be read, though agents run there", logs
            )
    for node, text in _notices(installed, running):
        yield problem(
            "agents", f"an event of {node} says: {text}",
            f"{logs}, which says it too (whoever may create events in namespace default can write one);"
            f" {pages.EVENTS}, Preflight",
        )  # fmt: skip


def _notices(installed: Installation, running: set[str]) -> Iterator[tuple[str, str]]:
    """Yields node and text of the latest Preflight event of each node whose agent is not Ready.

    `running` are the nodes with a Ready agent. Their events are left out: only an agent that is not Ready posts such an
    event, so they are out of date.
    """
    agents = map(node_of, installed.agents) if installed.agents is not None else installed.inventories()
    waiting = {*agents} - running
    last: dict[str, str] = {}
    for event in sorted(installed.notices or (), key=lambda each: str(each.get("lastTimestamp") or "")):
        node = str((event.get("involvedObject") or {}).get("name"))
        if node in waiting:
            last[node] = str(event.get("message"))[:MOST_TEXT]
    yield from sorted(last.items())


def _labelled(nodes: Sequence[Node], selectors: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """Yields a problem if no node has the labels for an agent, as in a new installation.

    `selectors` are the node selectors of the agents' DaemonSets.
    """
    if not any(selector.items() <= (node.labels or {}).items() for node in nodes for selector in selectors):
        labels = " ".join(f"{key}={value}" for key, value in selectors[0].items())
        yield problem(
            "agents", f"no node has the label {labels}, so no agent runs and no card is shared",
            f"label the nodes with cards: kubectl label node NODE {labels}, and vgpu.io/maker=hygon where they are"
            " Hygon's",
        )  # fmt: skip


def node_of(pod: Object) -> str:
    """Returns the node of a pod; empty if it has none."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def is_ready(pod: Object) -> bool:
    """True if a pod is Ready and is not being deleted."""
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def cards(installed: Installation) -> Iterator[Finding]:
    """Checks the cards of all nodes, and reports cordoned cards.

    Agents must have found cards. The cards must be healthy, shown by their nodes, and large enough for the slices on
    them. The limits of the slices must be enforced.
    """
    for missing in installed.reading.missing:
        yield Finding("cards", CheckState.UNKNOWN, str(missing))
    inventories = installed.inventories()
    if installed.nodes is not None and not any(node.inventory for node in installed.nodes):
        yield problem(
            "cards", "no node shows a card: no agent has published an inventory",
            f"see whether agents run: kubectl -n {installed.namespace} get pods -o wide, and describe pod",
        )  # fmt: skip
    empty = [name for name, inventory in inventories.items() if not inventory.cards]
    if empty:
        yield problem(
            "cards", f"no card is offered on {few(empty)}",
            "see that the driver is loaded there, what the setting excludeCards says, and the agent's events: kubectl"
            " describe node",
        )  # fmt: skip
    shown = [(node, card) for node in installed.reading.nodes.values() for card in node.cards]
    yield from _sick(shown)
    yield from _unlimited([card for _, card in shown])
    cordoned = [_named(card) for _, card in shown if card.card is not None and card.card.cordoned]
    if cordoned:
        yield Finding("cards", CheckState.OK, f"cordoned: {few(cordoned)}; `vgpu cards` says why")


def _unlimited(shown: Sequence[CardReading]) -> Iterator[Finding]:
    """Yields problems of slices whose limits are perhaps not enforced."""
    if pods := _in_state(shown, SliceState.COVERED):
        yield problem(
            "cards", f"something covers the files that limit {few(pods)}",
            f"delete these pods, or see {pages.ISOLATION}: kubectl describe pod names the mount",
        )  # fmt: skip
    if pods := _in_state(shown, SliceState.UNENFORCED):
        yield problem(
            "cards", f"the library that limits them is not in use in {few(pods)}",
            f"delete these pods, or see {pages.ISOLATION} for programs that bypass the library",
        )  # fmt: skip


def _in_state(shown: Sequence[CardReading], state: SliceState) -> Sequence[str]:
    """Returns the pods with a slice for which the node's agent reports this state."""
    held = [holder for card in shown for holder in card.holders if holder.state is state]
    return sorted({f"{holder.namespace}/{holder.pod}" for holder in held})


def _sick(shown: Sequence[tuple[NodeReading, CardReading]]) -> Iterator[Finding]:
    unhealthy = [_named(card) for _, card in shown if card.card is not None and not card.card.healthy]
    if unhealthy:
        yield problem(
            "cards", f"unhealthy: {few(unhealthy)}; they get no new slices",
            "see the events of the node (kubectl describe node): CardUnhealthy names a fault, Preflight another program"
            " that gives out the cards. `vgpu drain CARD` moves the pods away",
        )  # fmt: skip
    small = [_named(card) for _, card in shown if _is_short(card)]
    if small:
        yield problem(
            "cards", f"smaller than the slices on them: {few(small)}; they get no new slices",
            "see which setting or driver changed; or delete pods of these cards until the rest fits",
        )  # fmt: skip
    # Without the right to read nodes no card is shown.
    gone = [_named(card) for node, card in shown if card.card is None and node.serving is not None]
    if gone:
        yield problem(
            "cards", f"not shown by their nodes, though pods hold slices of them: {few(gone)}",
            "see the agent's events: kubectl describe node. If the card is gone for good, delete these pods",
        )  # fmt: skip


def _is_short(card: CardReading) -> bool:
    """True if the card has less memory, slices or core groups than were granted."""
    if card.card is None:
        return False
    groups = (group for holder in card.holders for group in holder.slice.cores)
    return (
        card.held_mib > card.mem_mib
        or len(card.holders) > card.max_slices
        or max(groups, default=-1) >= card.core_groups
    )


def _named(card: CardReading) -> str:
    return f"{card.node}/{card.uuid}"


def plugins(installed: Installation) -> Iterator[Finding]:
    """Checks that each kubelet counts as many cards as the inventory; if not, another plugin may serve the resource.

    All prefixes of the installation are compared on every node, even if its inventory has no such card: an agent takes
    its cards out of the inventory where another plugin serves their resource.
    """
    yield from unknown(installed, "plugins", "nodes", "workloads")
    inventories, prefixes = installed.inventories(), installed.prefixes()
    for node in installed.nodes or ():
        inventory = inventories.get(node.name)
        if inventory is None and node.inventory:
            continue  # The check `annotations` reports an inventory that cannot be read.
        families = [card.family for card in inventory.cards] if inventory is not None else []
        for whole in (resource_names(prefix)[0] for prefix in prefixes):
            counted, shown = (node.capacity or {}).get(whole), families.count(whole)
            if counted is not None and counted != str(shown):
                yield problem(
                    "plugins", f"{node.name}: the kubelet counts {counted} of {whole}, the inventory shows"
                    f" {shown} cards",
                    "if another device plugin serves this resource there, remove one of them, or leave its prefix out:"
                    f" {pages.INSTALL}; else restart the agent",
                )  # fmt: skip
            elif counted is None and shown and inventory is not None and inventory.serving:
                yield problem(
                    "plugins", f"{node.name}: the kubelet does not know {whole}",
                    "see the agent's log, and that the kubelet runs",
                )  # fmt: skip


def units(installed: Installation) -> Iterator[Finding]:
    """Checks that all nodes use one memory unit for a family of cards."""
    yield from unknown(installed, "units", "nodes")
    for family, sizes in memory_units(installed.inventories()).items():
        if len(sizes) > 1:
            amounts = "; ".join(f"{unit} MiB on {few(nodes)}" for unit, nodes in sizes.items())
            yield problem(
                "units", f"one {resource_names(family)[1]} is {amounts}", "use one memUnitMiB on all nodes"
            )
