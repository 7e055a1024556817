"""Events that the services write, each with its cause and what to do. docs/reference/events.md is made from it."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class About:
    """A kind of event for people: the service that writes it, the kind of its object, its cause and what to do."""

    service: str
    kind: str
    cause: str
    advice: str
    warning: bool = True


class Event(StrEnum):
    """The reason of an event."""

    PREFLIGHT = "Preflight"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_HEALTHY = "CardHealthy"
    MEMORY_UNIT_CHANGED = "MemoryUnitChanged"
    RECORD_DAMAGED = "RecordDamaged"
    DUPLICATE_TICKETS = "DuplicateTickets"
    SLICE_COVERED = "SliceCovered"
    COVERED_POD_DELETED = "CoveredPodDeleted"
    SLICE_CONFLICT = "SliceConflict"
    PREEMPTED = "Preempted"
    PREEMPTING = "Preempting"

    @property
    def about(self) -> About:
        """Its description for people."""
        return _ABOUT[self]


AGENT, CLUSTER = "node agent", "cluster service"
_ABOUT = {
    Event.PREFLIGHT: About(
        AGENT, "Node",
        "The agent lacks something, or another plugin serves a resource of ours; the text says which. The agent serves"
        " on, but is not Ready. It is posted once, and again if the problem goes and comes back.",
        "What the text says.",
    ),
    Event.CARD_UNHEALTHY: About(
        AGENT, "Node",
        "The driver reports a fault of the card, which the text names, or no longer reports the card. It gets no new"
        " slices, and containers that hold slices of it are not started again.",
        "See the driver's log. End the pods that the text names, or `vgpu drain CARD`, and repair the card.",
    ),
    Event.CARD_HEALTHY: About(
        AGENT, "Node", "The driver reports the card without a fault again.", "Nothing.", warning=False
    ),
    Event.MEMORY_UNIT_CHANGED: About(
        AGENT, "Node",
        "The agent has another `memUnitMiB` than the one before it. Running pods keep what they have; the same request"
        " now gives another amount.",
        "Use one `memUnitMiB` on all nodes, and change it while no slice runs.",
    ),
    Event.RECORD_DAMAGED: About(
        AGENT, "Node",
        "The agent's record of a container cannot be read, mostly after a fault of the disk. It is made anew from the"
        " pod's grant, and the damaged file is kept aside. Until then the cards of the container get no new slices, as"
        " long as its processes may run.",
        "Check the disk. If the agent's log says that the record cannot be restored, delete the pod.",
    ),
    Event.DUPLICATE_TICKETS: About(
        AGENT, "Node",
        "The kubelet gave the same tickets to two pods. The container that asked last does not start.",
        "Delete one of the pods that the text names.",
    ),
    Event.SLICE_COVERED: About(
        AGENT, "Pod",
        "A mount in the container hides the files that limit it, or it has too many mounts to read. Its limits may not"
        " hold.",
        "Remove the mount, or use fewer, and create the pod again.",
    ),
    Event.COVERED_POD_DELETED: About(
        CLUSTER, "Pod",
        "The agent reported the pod as covered, and `coveredPods` is `delete`.",
        "As for `SliceCovered`.",
    ),
    Event.SLICE_CONFLICT: About(
        CLUSTER, "Pod",
        "The grants of two pods overlap on a card. The pod that was bound later is deleted. This should never happen.",
        "Report it as a defect, with the text and the logs of the cluster service.",
    ),
    Event.PREEMPTED: About(
        CLUSTER, "Pod",
        "The pod was evicted: a pod of higher priority needs its slice.",
        "Nothing; its owner makes it again.",
    ),
    Event.PREEMPTING: About(
        CLUSTER, "Pod",
        "Pods of lower priority were evicted for this pod. What they leave is held for it.",
        "Wait until they have ended; the text names them.",
    ),
}  # fmt: skip
