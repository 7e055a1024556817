"""Why a pod has no card: what it asks for, what each group of nodes lacks, and what would make room for it.

The answer comes from a dry run of the allocator (`DryRun`), on a view of the cluster that a command has read from the
API server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from device_plugin.allocator.dry_run import DryRun
from device_plugin.allocator.openings import ending, moves_as_text, opening, placed_pods
from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.service import Service, Shared
from device_plugin.core.answers import Answer, sentence
from device_plugin.core.claims import UnknownClaimError
from device_plugin.core.contract.annotations import IDLE_LIMIT
from device_plugin.core.contract.grants import Grant, ranges
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.counted import counted, few_of
from device_plugin.core.durations import span
from device_plugin.core.errors import RequestError
from device_plugin.core.idle import idle_limit
from device_plugin.core.placement import Refusal
from device_plugin.core.placement.groups import RefusingNodes, refusing_nodes
from device_plugin.core.placement.smaller import smaller
from device_plugin.core.pod_states import PodState
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import MovePlan
from device_plugin.core.requests import PodRequest, Request

# Most groups of nodes among the reasons, and most names of one group.
GROUPS, NAMES = 6, 4


_SETTLED = {state.value for state in (PodState.BOUND, PodState.ENDED, PodState.NO_SLICE)}


@dataclass(frozen=True, slots=True)
class Cures:
    """Changes that would give a refused pod a card: fewest pods to end, fewest pods to move, smaller requests."""

    ends_on: str = ""
    ends: tuple[str, ...] = ()
    moves_to: str = ""
    moves: str = ""
    smaller: tuple[Request, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The state of a pod, or the reason why it has no card.

    `state` is the value of a Reason if the pod is refused, else of a PodState. `says` is the answer without the name of
    the pod, and `notes` are reasons in addition to those of the `groups`. `grant` has the slices that the pod holds,
    or would get now.
    """

    pod: str
    state: str
    asks: str = ""
    says: str = ""
    notes: tuple[str, ...] = ()
    advice: str = ""
    grant: Grant | None = None
    groups: tuple[RefusingNodes, ...] = ()
    limits: str = ""
    cures: Cures = Cures()

    @property
    def waits(self) -> bool:
        """True for a pod that asks for a slice, has none, and has not ended."""
        return self.state not in _SETTLED

    def answer(self, source: str = "") -> Answer:
        """The answer for people, in parts: one line, reasons, and changes that would help."""
        asks = f"{self.pod} asks for {self.asks} and" if self.asks else self.pod
        return Answer(f"{asks} {self.says}", tuple(self._reasons()), tuple(self._helps()), source)

    def _reasons(self) -> Iterator[str]:
        yield from map(sentence, self.notes)
        yield from map(_group_text, self.groups[:GROUPS])
        if left := self.groups[GROUPS:]:
            yield f"{sum(len(group.nodes) for group in left)} more nodes have other reasons"
        if self.limits:
            yield self.limits

    def _helps(self) -> Iterator[str]:
        cures = self.cures
        if cures.ends:
            verb = "has" if len(cures.ends) == 1 else "have"
            yield f"It would fit on {cures.ends_on} once {few_of(cures.ends, NAMES)} {verb} ended"
        if cures.moves:
            yield f"It would fit on {cures.moves_to} after moving {cures.moves}: see vgpu defrag"
        if cures.smaller:
            yield f"What fits now: {'; or '.join(map(str, cures.smaller))}"
        if self.advice:
            yield self.advice

    def as_object(self) -> Mapping[str, Any]:
        """The answer as JSON for programs."""
        return {
            "pod": self.pod, "state": self.state, "asks": self.asks,
            "text": ": ".join(filter(None, (self.says, "; ".join(self.notes)))), "advice": self.advice,
            "node": self.grant.node if self.grant else "",
            "cards": sorted({s.card for s in self.grant.slices()}) if self.grant else [],
            "nodes": [
                {
                    "nodes": list(group.nodes), "models": list(group.models), "reason": group.reason.value,
                    "text": group.refusal.text,
                }
                for group in self.groups
            ],
            "limits": self.limits,
            "ends": {"node": self.cures.ends_on, "pods": list(self.cures.ends)},
            "moves": {"node": self.cures.moves_to, "text": self.cures.moves},
            "smaller": [str(asked) for asked in self.cures.smaller],
            **self.answer().as_object(),
        }  # fmt: skip


class PodAnswers(Service):
    """Answers why a pod has no card, one pod at a time; the pod is placed in a dry run."""

    def __init__(self, shared: Shared, search: SearchCopy) -> None:
        super().__init__(shared)
        self._search = search
        self._dry = DryRun(shared)

    def about(self, pod: Pod, nodes: Sequence[str] | None = None, limits: str = "") -> PodAnswer:
        """The answer about one pod that may go to `nodes` (None: all); `limits` says why the other nodes are excluded.

        An unbound pod without a reservation is placed in a dry run. Raises LaterError.
        """
        name = f"{pod.namespace}/{pod.name}"
        try:
            request = self._view.pods.request_of(pod)
        except RequestError as error:
            # The claims of a bound pod may be gone, or not be readable by the caller.
            return self._bound(pod, name, "") if pod.node or pod.ended else _refused(name, error)
        if request is None:
            return PodAnswer(name, PodState.NO_SLICE.value, says=PodState.NO_SLICE.text)
        asks = asked_text(request)
        if pod.node or pod.ended:
            return self._bound(pod, name, asks)
        if (reserved := self._view.ledger.grant(pod.uid)) is not None:
            return self._reserved(pod, asks, reserved)
        return self._unbound(pod, name, asks, request, nodes, limits)

    def _bound(self, pod: Pod, name: str, asks: str) -> PodAnswer:
        """The answer about a pod that is bound, or has ended."""
        if pod.ended:
            return PodAnswer(name, PodState.ENDED.value, asks, f"{PodState.ENDED.text} ({pod.phase})")
        grant = self._view.ledger.grant(pod.uid)
        held = (
            f"{PodState.BOUND.text} {grant_text(grant)}"
            if grant
            else f"is on {pod.node} without a grant of vgpu"
        )
        says, notes = f"{held} (phase {pod.phase})", self._idle_notes(pod)
        return PodAnswer(name, PodState.BOUND.value, asks, says, notes, grant=grant)

    def _idle_notes(self, pod: Pod) -> tuple[str, ...]:
        """The text about the idle limit of a bound pod; empty if it has none."""
        limit = idle_limit(pod.annotation(IDLE_LIMIT))
        if limit is None:
            return ()
        with self._view.lock:
            due = any(
                idle.uid == pod.uid and limit <= idle.limit
                for node, idle in self._view.reports.idle()
                if node == pod.node
            )
            unmeasured = self._view.reports.unmeasured(pod.node, pod.uid)
        what = f"all of its slices have been idle for {span(limit)} ({IDLE_LIMIT})"
        if due:
            return (f"it is evicted, because {what}",)
        if unmeasured:
            return (
                f"it is never evicted as idle ({IDLE_LIMIT}), because computing is not measured on its card",
            )
        return (f"it is evicted once {what}",)

    def _reserved(self, pod: Pod, asks: str, grant: Grant) -> PodAnswer:
        """The answer about a pod for which the leader keeps slices, with the pods that still hold some of them."""
        others = (self._view.pods.get(each.other) for each in self._view.ledger.in_the_way(grant, pod.uid))
        leaving = sorted({f"{other.namespace}/{other.name}" for other in others if other is not None})
        state = PodState.PREEMPTING if leaving else PodState.KEPT
        text = " ".join(("waits:", grant_text(grant), "is", state.text, few_of(leaving, NAMES))).rstrip()
        name = f"{pod.namespace}/{pod.name}"
        return PodAnswer(name, state.value, asks, text, advice=sentence(state.advice), grant=grant)

    def _unbound(
        self, pod: Pod, name: str, asks: str, request: PodRequest, nodes: Sequence[str] | None, limits: str
    ) -> PodAnswer:
        among = self._view.snapshot().nodes() if nodes is None else nodes
        with self._dry.placed(pod, request, among) as answer:
            if isinstance(answer, Grant):
                return self._fitting(pod, name, asks, answer)
        groups = self._groups(answer, pod, request, among)
        # With a single group, the group's text says the same as the refusal's text.
        whole = [] if len(groups) == 1 else [answer.text]
        notes = self._notes() if answer.cards or request.gang else []
        held = [f"it is held by {pod.obstacles.gated} as well"] if pod.obstacles.gates else []
        return PodAnswer(
            name, answer.main.value, asks, "fits no node now", (*whole, *notes, *held), sentence(answer.advice),
            groups=groups, limits=sentence(limits), cures=self._cures(pod, request, nodes),
        )  # fmt: skip

    def _fitting(self, pod: Pod, name: str, asks: str, grant: Grant) -> PodAnswer:
        where = f"fits on node {grant.node} now ({grant_text(grant)})"
        state, why = PodState.FITS, PodState.FITS.text
        if held := pod.obstacles.text:
            state, why = PodState.HELD, f"{PodState.HELD.text}: {held}"
        return PodAnswer(name, state.value, asks, where, (why,), sentence(state.advice), grant)

    def _notes(self) -> list[str]:
        """Texts about slices that outlive their pod or are kept for a job."""
        with self._view.lock:
            return [*self._view.reports.summary(), *self._view.promises.slices.summary()]

    def _groups(
        self, refusal: Refusal, pod: Pod, request: PodRequest, nodes: Sequence[str]
    ) -> tuple[RefusingNodes, ...]:
        placer = self._allocator.placer
        ranked = self._allocator.in_group(pod, request)

        def refuse(some: Sequence[str]) -> Refusal:
            answer = placer.place(ranked, some)
            return answer if isinstance(answer, Refusal) else refusal

        return refusing_nodes(refusal, nodes, self._models, refuse)

    def _models(self, node: str) -> tuple[str, ...]:
        state = self._view.ledger.node(node)
        return tuple(sorted({card.card.model for card in state.cards})) if state is not None else ()

    def _cures(self, pod: Pod, request: PodRequest, nodes: Sequence[str] | None) -> Cures:
        if request.gang is not None:
            return Cures()
        placed = placed_pods(self._view)
        ends = ending(self._view, self._search, pod, placed, nodes)
        moves = opening(self._view, self._search, pod, placed, nodes)
        with self._search.planner(pod) as planner:
            smaller_ones = smaller(request, lambda less: planner.placer.find(less, nodes) is not None)
        return Cures(
            ends.places[0].node if ends else "", self._names(ends), moves.places[0].node if moves else "",
            moves_as_text(self._view, moves) if moves else "", smaller_ones,
        )  # fmt: skip

    def _names(self, plan: MovePlan | None) -> tuple[str, ...]:
        pods = (self._view.pods.get(move.source.pod) for move in plan.moves) if plan else ()
        return tuple(sorted(f"{pod.namespace}/{pod.name}" for pod in pods if pod is not None))


def _refused(name: str, error: RequestError) -> PodAnswer:
    """The answer about a pod whose request cannot be read, or whose ResourceClaim does not exist yet."""
    if isinstance(error, UnknownClaimError):
        state = PodState.CLAIM
        return PodAnswer(name, state.value, says=f"{state.text}: {error}", advice=sentence(state.advice))
    return PodAnswer(name, Reason.MALFORMED.value, says=f"is refused: {error}")


def asked_text(request: PodRequest) -> str:
    """The request as its author wrote it. If several containers ask for slices, each part has its container's name."""
    several = len(request.containers) > 1
    parts = [f"{name}: {asked}" if several else str(asked) for name, asked in request.containers]
    if request.models.text:
        parts.append(f"card model {request.models.text}")
    if request.uuids.text:
        parts.append(f"card {request.uuids.text}")
    return "; ".join(parts)


def grant_text(grant: Grant) -> str:
    """The slices of a grant as text, for example `4092 MiB and core groups 0-14 of GPU-1 on n1`."""
    slices = ", ".join(
        f"{s.mem_mib} MiB and core groups {ranges(s.cores)} of {s.card}" for s in grant.slices()
    )
    return f"{slices} on {grant.node}"


def _group_text(group: RefusingNodes) -> str:
    models = f" with {', '.join(group.models)}" if group.models else ""
    return f"{counted(len(group.nodes), 'node')}{models} ({few_of(group.nodes, NAMES)}): {group.refusal.text}"
