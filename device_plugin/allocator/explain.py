"""/explain: the holders of every card, and the waiting pods with their reasons, read from the ledger at each call."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from device_plugin.allocator.openings import moves_as_text, opening, placed_pods
from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.service import Service, Shared
from device_plugin.core.claims import UnknownClaimError
from device_plugin.core.contract.annotations import GROUP
from device_plugin.core.contract.cards import Inventory, SliceState, memory_units
from device_plugin.core.contract.grants import Grant, ranges
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.counted import counted, few_of
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import CardState, Holder, Holding, Reservation, ReservationStage, Snapshot
from device_plugin.core.ledger.view import LedgerView
from device_plugin.core.placement import Refusal
from device_plugin.core.placement.policies import APART
from device_plugin.core.placement.refusal import MOVING
from device_plugin.core.pod_states import PodState
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Planner
from device_plugin.core.requests import PodRequest, resource_names
from device_plugin.state.promised import PromiseStatus

View = Mapping[str, Any]
# Most nodes that the text about different memory units names.
NODES = 16


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """An unbound pod that asks for slices, and the answer about it: the reason why it waits, and advice.

    `reason` is the value of a Reason if the pod is refused, else of a PodState of WAITING_STATES; `text` says it in
    words. `created` is the pod's creation time.
    """

    namespace: str
    pod: str
    text: str
    advice: str
    reason: str
    created: str = ""


class Explainer(Service):
    """Makes the answers (views) of /explain from a snapshot of the ledger, without the lock.

    Equal requests of waiting pods are placed once, on a copy of the ledger.
    """

    def __init__(self, shared: Shared, scheduler_name: str, wait: Callable[[float], object]) -> None:
        super().__init__(shared)
        self._scheduler_name = scheduler_name
        self._search = SearchCopy(shared, wait)

    def view(self, pod: str = "") -> View:
        """The whole answer of /explain, or with `pod` (namespace/name) only the part about that pod.

        The part also has the moves of other pods that would make room for it.
        """
        with self._view.lock:
            gangs = [asdict(gang) for gang in self._allocator.gangs.statuses()]
            faults = [asdict(fault) for fault in self._view.faults.standing()]
            promises = [_promise(promise) for promise in self._view.promises.slices.statuses()]
        snapshot = self._view.snapshot()
        nodes = [self.node(snapshot, name) for name in self._search.paced(snapshot.nodes())]
        waiting = [asdict(entry) for entry in self.waiting()]
        why_not = self._why_not_leading()
        view = {
            "leader": not why_not, "whyNotLeading": why_not, "nodes": nodes, "waiting": waiting, "gangs": gangs,
            "promises": promises, "faults": faults, "units": list(_mixed_units(snapshot.inventories())),
        }  # fmt: skip
        return {**_only(view, pod), "moves": self._moves(pod)} if pod else view

    def node(self, snapshot: Snapshot, name: str) -> dict[str, Any]:
        """A node's cards and the holders of their slices, from a snapshot."""
        state = snapshot.node(name)
        cards = [self._card(snapshot, name, card) for card in state.cards] if state is not None else []
        serving = state is not None and state.serving
        return {"name": name, "serving": serving, "loads": self._loads(name), "cards": cards}

    def waiting(self) -> list[UnplacedPod]:
        """The unbound pods of our scheduler that wait for slices, each with its reason, sorted by namespace and name.

        They have no reservation, or only a nomination: slices that evicted pods still use.
        """
        unplaced = self._unplaced()
        if not unplaced:
            return []
        answers: dict[tuple[object, ...], Grant | Refusal | None] = {}
        with self._search.planner() as planner:
            return [
                replace(self._waiting(pod, planner, answers), created=pod.created)
                for pod in self._search.paced(unplaced)
            ]

    def _moves(self, wanted: str) -> list[str]:
        """Texts with the moves of other pods that would make room for the pod `wanted` (namespace/name).

        Moves are searched for one pod only, because a search for all waiting pods would take too long.
        """
        named = [pod for pod in self._unplaced() if f"{pod.namespace}/{pod.name}" == wanted]
        placed = placed_pods(self._view) if named else {}
        plans = (opening(self._view, self._search, pod, placed) for pod in named)
        return [
            f"{wanted} would fit on {plan.places[0].node} after moving {moves_as_text(self._view, plan)}; see vgpu"
            " defrag"
            for plan in plans if plan is not None
        ]  # fmt: skip

    def _unplaced(self) -> list[Pod]:
        """Unbound pods of our scheduler that have no reservation, or only a nomination, sorted by namespace and name.

        A nomination reserves slices that evicted pods still use.
        """
        unbound = [pod for pod in self._view.pods.all() if self._is_unbound(pod)]
        snapshot = self._view.snapshot()
        unplaced = [pod for pod in unbound if not _is_placed(snapshot.holding(pod.uid))]
        return sorted(unplaced, key=lambda pod: (pod.namespace, pod.name))

    def _is_unbound(self, pod: Pod) -> bool:
        return not pod.node and pod.scheduler == self._scheduler_name and not pod.deleting and not pod.ended

    def _waiting(
        self, pod: Pod, planner: Planner, answers: dict[tuple[object, ...], Grant | Refusal | None]
    ) -> UnplacedPod:
        try:
            request = self._view.pods.request_of(pod)
        except UnknownClaimError as error:
            # kube-scheduler does not try it, and writes no condition to it.
            return _entry(pod, f"{PodState.CLAIM.text}: {error}", PodState.CLAIM)
        except RequestError as error:
            malformed = Reason.MALFORMED
            return UnplacedPod(pod.namespace, pod.name, str(error), malformed.advice, malformed.value)
        if request is None:
            return _entry(pod, PodState.NO_SLICE.text, PodState.NO_SLICE)
        if wrong := self._wrong(pod, request):
            return UnplacedPod(
                pod.namespace, pod.name, wrong, Reason.MALFORMED.advice, Reason.MALFORMED.value
            )
        nominated = planner.ledger.reservation(pod.uid)
        if nominated is not None:
            return self._nominated(pod, planner.ledger, nominated.grant)
        # Placing a gang takes too long for every scrape, so its pods show the gang's last answer.
        beneficiary = self._view.promises.of(pod)
        shape = (pod.namespace, request.gang) if request.gang else _shape(request, pod)
        key = (beneficiary, *shape)
        if key not in answers:
            answers[key] = self._answer(pod, request, planner, beneficiary)
        answer = answers[key]
        if isinstance(answer, Refusal):
            gated = [f"held by {pod.obstacles.gated} as well"] if pod.obstacles.gates else []
            text = "; ".join((answer.text, *self._kept(answer), *gated))
            return UnplacedPod(pod.namespace, pod.name, text, answer.advice, answer.main.value)
        if held := pod.obstacles.text:
            place = f"a card is free on {answer.node}" if answer else "all pods of its group exist"
            return _entry(pod, f"{place}; {PodState.HELD.text}: {held}", PodState.HELD)
        fits = f"fits on node {answer.node}" if answer else "all pods of its group exist"
        return _entry(pod, f"{fits}; {PodState.FITS.text}", PodState.FITS)

    def _kept(self, refusal: Refusal) -> list[str]:
        """Texts about slices that outlive their pod or are kept for a job, if they may be the cause of the refusal."""
        if refusal.main not in (*MOVING, Reason.GANG_ROOM):
            return []
        with self._view.lock:
            return [*self._view.reports.summary(), *self._view.promises.slices.summary()]

    def _wrong(self, pod: Pod, request: PodRequest) -> str:
        """The problem of the pod's group or ResourceClaims that keeps it waiting, as text; empty if there is none."""
        if not (pod.label(GROUP) or request.claims):
            return ""
        with self._view.lock:
            return self._allocator.problem(pod, request)

    def _answer(
        self, pod: Pod, request: PodRequest, planner: Planner, beneficiary: str
    ) -> Grant | Refusal | None:
        """The answer that /filter would give if every node were offered.

        The slices promised to `beneficiary` count as free. For a pod of a gang, the answer is the gang's latest
        refusal; None if there is none.
        """
        if request.gang is None:
            with planner.ledger.transaction():
                if beneficiary:
                    with self._view.lock:
                        self._view.promises.slices.release(beneficiary, planner.ledger)
                return planner.placer.place(self._allocator.in_group(pod, request))
        with self._view.lock:
            return self._allocator.gangs.refusal(pod, request)

    def _nominated(self, pod: Pod, ledger: LedgerView, grant: Grant) -> UnplacedPod:
        """The entry of a pod for which others are being evicted; it names those that still hold some of its slices."""
        leaving = sorted(self._name(conflict.other) for conflict in ledger.in_the_way(grant))
        cards = sorted({s.card for s in grant.slices()})
        kept = f"card {cards[0]}" if len(cards) == 1 else f"{len(cards)} cards ({', '.join(cards)})"
        where = f"{kept} of {grant.node} {'is' if len(cards) == 1 else 'are'}"
        if not leaving:
            return _entry(pod, f"{where} {PodState.KEPT.text}", PodState.KEPT)
        text = f"{where} {PodState.PREEMPTING.text} {', '.join(dict.fromkeys(leaving))}"
        return _entry(pod, text, PodState.PREEMPTING)

    def _name(self, holder: Holder) -> str:
        whose = self._view.pods.get(holder) or self._view.reports.outliving(holder)
        return f"{whose.namespace}/{whose.name}" if whose else str(holder)

    def _loads(self, node: str) -> str:
        age = self._view.measured.age(node)
        return "from the ledger" if age is None else f"measured {age:.0f} s ago"

    def _card(self, snapshot: Snapshot, node: str, state: CardState) -> dict[str, Any]:
        card = state.card
        return {
            "uuid": card.uuid,
            "model": card.model,
            "family": card.family,
            "memMiB": card.mem_mib,
            "units": card.units,
            "memUnitMiB": card.unit_mib,
            "coreGroups": card.core_groups,
            "freeMiB": state.free_mib,
            "freeCoreGroups": state.free_cores.bit_count(),
            "freeSlices": state.free_slices,
            "maxSlices": card.max_slices,
            "healthy": card.healthy,
            "cordoned": card.cordoned,
            "short": state.short,
            "slices": sorted(
                self._slices(snapshot, node, card.uuid),
                key=lambda s: (s["namespace"], s["pod"], s["container"]),
            ),
        }

    def _slices(self, snapshot: Snapshot, node: str, uuid: str) -> Iterator[dict[str, Any]]:
        for holder in snapshot.holders(node, uuid):
            reservation = snapshot.reservation(holder)
            pod = reservation.pod if reservation else self._view.pods.get(holder)
            grant = snapshot.grant(holder)
            left = self._view.reports.outliving(holder) if pod is None or pod.ended else None
            whose = left or pod
            if whose is None or grant is None:
                continue
            reports = [each for each in self._view.reports.of_living(node) if each.pod == holder]
            covered, unenforced = (
                {each.container for each in reports if each.state is state}
                for state in (SliceState.COVERED, SliceState.UNENFORCED)
            )
            for container, slices in sorted(grant.containers.items()):
                for s in slices:
                    if s.card == uuid:
                        yield {
                            "namespace": whose.namespace, "pod": whose.name, "uid": whose.uid, "container": container,
                            "memMiB": s.mem_mib, "cores": list(s.cores), "bound": reservation is None,
                            "outliving": left is not None, "covered": container in covered,
                            "unenforced": container in unenforced,
                        }  # fmt: skip


def _entry(pod: Pod, text: str, state: PodState) -> UnplacedPod:
    return UnplacedPod(pod.namespace, pod.name, text, state.advice, state.value)


def _is_placed(held: Holding | None) -> bool:
    """True if the pod has a grant or reservation; a nomination (slices that evicted pods still use) does not count."""
    return held is not None and (
        not isinstance(held, Reservation) or held.stage is not ReservationStage.NOMINATED
    )


def _shape(request: PodRequest, pod: Pod) -> tuple[object, ...]:
    """A key: pods with equal keys get the same answer. The pods' ranks in their groups are not part of the key.

    If a policy gives each pod of a group its own node, the group is part of the key.
    """
    group = (pod.namespace, pod.label(GROUP)) if request.policy in APART else ()
    return (
        request.containers, request.models, request.uuids, request.policy, request.host, request.app_type, group,
        bool(request.claims),
    )  # fmt: skip


def _only(view: View, wanted: str) -> View:
    """The part of the answer of /explain about one pod.

    The part has the pod's slices, its reason to wait, its gang, the promises of its slices, and faults of its grant.
    """
    nodes = []
    for node in view["nodes"]:
        cards = []
        for card in node["cards"]:
            own = [s for s in card["slices"] if f"{s['namespace']}/{s['pod']}" == wanted]
            if own:
                cards.append({**card, "slices": own})
        if cards:
            nodes.append({**node, "cards": cards})
    waiting = [entry for entry in view["waiting"] if f"{entry['namespace']}/{entry['pod']}" == wanted]
    promises = [promise for promise in view["promises"] if wanted in promise["leaving"]]
    gangs = [
        gang for gang in view["gangs"] if wanted in (f"{gang['namespace']}/{pod}" for pod in gang["pods"])
    ]
    faults = [fault for fault in view["faults"] if fault["subject"] == wanted]
    return {
        **view, "pod": wanted, "nodes": nodes, "waiting": waiting, "gangs": gangs, "promises": promises,
        "faults": faults,
    }  # fmt: skip


def _mixed_units(inventories: Mapping[str, Inventory]) -> Iterator[str]:
    """A text for each card family whose memory unit (MiB for one unit of a request) differs between nodes."""
    for family, units in memory_units(inventories).items():
        if len(units) > 1:
            amounts = (f"{unit} MiB on {few_of(nodes, NODES)}" for unit, nodes in units.items())
            yield f"one {resource_names(family)[1]} is {'; '.join(amounts)}: use one memUnitMiB on all nodes"


def as_text(view: View) -> str:
    """The answer of /explain as text for people."""
    lines = [
        "this replica leads" if view["leader"] else f"this replica does not lead: {view['whyNotLeading']}"
    ]
    if view["nodes"] and "pod" not in view:
        lines.append(_totals(view["nodes"]))
    for node in view["nodes"]:
        silent = "" if node["serving"] else ", its agent is not serving"
        lines.append(f"{node['name']} (loads: {node['loads']}{silent})")
        for card in node["cards"]:
            lines += _card_lines(card)
    lines += _section(
        "waiting", (f"{w['namespace']}/{w['pod']}: {w['text']}; {w['advice']}" for w in view["waiting"])
    )
    lines += _section("gangs", map(_gang_line, view["gangs"]))
    lines += _section("promises", map(_promise_line, view["promises"]))
    lines += _section("moves", view.get("moves", ()))
    lines += _section("ignored", (f"{f['kind']} of {f['subject']}: {f['text']}" for f in view["faults"]))
    lines += _section("memory units differ", view["units"])
    if not (view["nodes"] or view["waiting"] or view["faults"]):
        asked = view.get("pod")
        lines.append(
            f"no pod {asked} asks for a slice or holds one: check the name, and write NAMESPACE/NAME"
            if asked
            else "no node offers cards, and no pod asks for a slice"
        )
    return "\n".join(lines) + "\n"


def _totals(nodes: Sequence[View]) -> str:
    """A line with the number of nodes, cards and slices, and with the free and total memory and core groups."""
    cards = [card for node in nodes for card in node["cards"]]
    total = {
        key: sum(card[key] for card in cards) for key in ("freeMiB", "memMiB", "freeCoreGroups", "coreGroups")
    }
    slices = sum(card["maxSlices"] - card["freeSlices"] for card in cards)
    return (
        f"nodes: {len(nodes)}, cards: {len(cards)}, slices: {slices}; free {total['freeMiB']} of {total['memMiB']} MiB,"
        f" {total['freeCoreGroups']} of {total['coreGroups']} core groups"
    )


def _gang_line(gang: View) -> str:
    sizes = " or ".join(map(str, gang["sizes"]))
    return (
        f"{gang['namespace']}/{gang['group']}: {len(gang['pods'])} of {sizes} pods exist,"
        f" {gang['reserved']} reserved, {gang['bound']} bound, {gang['finished']} finished"
        f"{'; ' if gang['why'] else ''}{gang['why']}"
    )


def _promise(status: PromiseStatus) -> View:
    return {
        "for": status.beneficiary, "node": status.node, "seconds": round(status.seconds),
        "leaving": status.leaving, "kept": msgspec.to_builtins(status.kept),
    }  # fmt: skip


def _promise_line(promise: View) -> str:
    kept = [f"{s['memMiB']} MiB, core groups {ranges(s['cores'])} of {s['card']}" for s in promise["kept"]]
    used = f"; still used by {', '.join(promise['leaving'])}" if promise["leaving"] else ""
    return (
        f"{promise['node']} for {promise['for']}: {', '.join(kept) or 'nothing is kept'}{used}; until"
        f" {promise['seconds']} s from now at the latest"
    )


def _card_lines(card: View) -> Iterator[str]:
    closed = ("" if card["healthy"] else ", unhealthy") + (", cordoned" if card["cordoned"] else "")
    if card["short"]:
        closed += ", reports less than was granted of it: gets no new slices until enough of these have ended"
    held = card["maxSlices"] - card["freeSlices"]
    slices = counted(held, "slice")
    # A card without memory or core groups left has no room, however few slices it has.
    if card["freeMiB"] and card["freeCoreGroups"] and card["freeSlices"]:
        slices += f" (room for {card['freeSlices']} more)"
    yield (
        f"  {card['uuid']} {card['model']}: {slices}, free {card['freeMiB']} of {card['memMiB']} MiB,"
        f" {card['freeCoreGroups']} of {card['coreGroups']} core groups{closed}"
    )
    for s in card["slices"]:
        stage = "" if s["bound"] else " (reserved)"
        if s["outliving"]:
            stage = " (its pod has ended, its processes have not)"
        elif s["covered"]:
            stage = " (something covers the files that limit it)"
        elif s["unenforced"]:
            stage = " (bypasses the library that limits it)"
        yield (
            f"    {s['namespace']}/{s['pod']} {s['container']}: {s['memMiB']} MiB,"
            f" core groups {ranges(s['cores'])}{stage}"
        )


def _section(title: str, entries: Iterable[str]) -> list[str]:
    lines = [f"  {entry}" for entry in entries]
    return [title, *lines] if lines else []
