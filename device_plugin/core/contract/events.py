"""Events that the services write, each with its cause and what to do. docs/reference/events.md is made from it."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class About:
    """The description of an event: the service that writes it, the kind of its object, its cause, and advice.

    `warning` is false for an event that reports nothing wrong.
    """

    service: str
    kind: str
    cause: str
    advice: str
    warning: bool = True


class Event(StrEnum):
    """The reasons of the events that our services write; a reason names the event."""

    PREFLIGHT = "Preflight"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_HEALTHY = "CardHealthy"
    MEMORY_UNIT_CHANGED = "MemoryUnitChanged"
    RECORD_DAMAGED = "RecordDamaged"
    DUPLICATE_TICKETS = "DuplicateTickets"
    CDI_OFF = "CdiOff"
    CARD_MEMORY_UNACCOUNTED = "CardMemoryUnaccounted"
    CARD_MEMORY_ACCOUNTED = "CardMemoryAccounted"
    CARD_SHARED_ELSEWHERE = "CardSharedElsewhere"
    SLICE_UNHEALTHY = "SliceUnhealthy"
    SLICE_COVERED = "SliceCovered"
    COVERED_POD_DELETED = "CoveredPodDeleted"
    SLICE_UNENFORCED = "SliceUnenforced"
    SLICE_USE_UNKNOWN = "SliceUseUnknown"
    WRITABLE_FILES_GROWN = "WritableFilesGrown"
    UNENFORCED_POD_DELETED = "UnenforcedPodDeleted"
    SLICE_CONFLICT = "SliceConflict"
    SLICES_IDLE = "SlicesIdle"
    SLICES_IN_USE = "SlicesInUse"
    IDLE_POD_EVICTED = "IdlePodEvicted"
    IDLE_POD_KEPT = "IdlePodKept"
    PREEMPTED = "Preempted"
    PREEMPTING = "Preempting"
    JOB_WAITS = "JobWaits"
    JOB_ADMITTED = "JobAdmitted"
    JOB_GROWN = "JobGrown"
    JOB_SHRUNK = "JobShrunk"
    JOB_STOPPED = "JobStopped"
    JOB_REFUSED = "JobRefused"
    PODS_REFUSED = "PodsRefused"
    CHECKPOINT_MISSED = "CheckpointMissed"
    CARD_DRAINED = "CardDrained"

    @property
    def about(self) -> About:
        """The description of the event for people."""
        return _ABOUT[self]


# Events that say why a Job is suspended.
WHY_A_JOB_WAITS = frozenset({Event.JOB_WAITS, Event.JOB_REFUSED, Event.JOB_STOPPED, Event.PODS_REFUSED})
AGENT, CLUSTER, ENGINE, COMMANDS = "node agent", "cluster service", "job engine", "commands"
_ABOUT = {
    Event.CARD_DRAINED: About(
        COMMANDS, "Pod",
        "An operator empties a card that the pod held a slice of, with `vgpu drain`; the text names both. Its owner"
        " creates it again elsewhere.",
        "Nothing. `vgpu cards` shows why the card is cordoned.",
        warning=False,
    ),
    Event.PREFLIGHT: About(
        AGENT, "Node",
        "The agent lacks something, another plugin serves a resource of ours, or another program gives out cards of the"
        " node; the text says which. The agent serves on, but is not Ready. It is posted once, and again if the problem"
        " goes and comes back.",
        "Do what the text says.",
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
        "The agent's record of a container cannot be read, mostly after a fault of the disk. It is made again from"
        " the pod's grant. Until then the cards of the container get no new slices, as long as its processes may run.",
        "Check the disk. If the agent's log says that the record cannot be restored, delete the pod.",
    ),
    Event.DUPLICATE_TICKETS: About(
        AGENT, "Node",
        "The kubelet gave the same tickets to two pods. The container that asked last does not start.",
        "Delete one of the pods that the text names.",
    ),
    Event.CDI_OFF: About(
        AGENT, "Node",
        "A container with a slice runs, and nothing that the agent prepared is mounted in it: its runtime does not use"
        " CDI. Its program sees no card. It is posted once an hour at most.",
        "Switch CDI on in the runtime's configuration, restart the runtime, and create the pods again.",
    ),
    Event.CARD_MEMORY_UNACCOUNTED: About(
        AGENT, "Node",
        "For 30 s more memory of the card was in use than the libraries of its slices count, by more than"
        " `unaccountedMiB`: a program bypasses the library, or a process that is in no container of ours uses the"
        " card. The text names the containers that hold more, by the kernel's figures, than their library counts.",
        "See the programs of the containers that it names, or `rocm-smi --showpids` on the node. If the driver takes as"
        " much on an idle card, set `unaccountedMiB` higher.",
    ),
    Event.CARD_MEMORY_ACCOUNTED: About(
        AGENT, "Node", "The memory of the card has been accounted for again for 30 s.", "Nothing.", warning=False
    ),
    Event.CARD_SHARED_ELSEWHERE: About(
        AGENT, "Node",
        "The card's driver holds a slice that is not one of ours, seen twice within 10 s: another program has cut the"
        " card (`hy-smi virtual`, Hygon's own plugin or DRA driver). The card gets no new slices while it does. The"
        " text names the pods that hold slices of ours.",
        "End that program's use of the card, or exclude the card (`excludeCards`).",
    ),
    Event.SLICE_UNHEALTHY: About(
        AGENT, "Pod",
        "The driver reports a fault of a card that the pod holds a slice of, or no longer reports the card. The pod's"
        " containers are not ended, but not started again while the card is unhealthy. It is posted once for a card.",
        "Delete the pod if its program no longer works: its owner makes it again on another card.",
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
    Event.SLICE_UNENFORCED: About(
        AGENT, "Pod",
        "By the kernel's figures processes of the container hold card memory or a queue for 30 s, and fewer of them"
        " have the library loaded: a static program, raw system calls, a musl program, a lost preload. Or, on Hygon's"
        " cards, the driver shows no slice for them: an image without Hygon's runtime. Its limits do not hold.",
        "Use dynamically linked programs of glibc, and keep `/etc/ld.so.preload` and `LD_PRELOAD`. `enforcement: kill`"
        " deletes such pods.",
    ),
    Event.SLICE_USE_UNKNOWN: About(
        AGENT, "Pod",
        "By the kernel's figures processes of the container hold card memory or a queue for 30 s, and its usage region"
        " cannot be read: a program in the container has written into it, or a library of another version.",
        "Create the pod again. If it comes back, see what its programs do with `/var/run/vgpu`.",
    ),
    Event.WRITABLE_FILES_GROWN: About(
        AGENT, "Pod",
        "A program of the container has made its usage region or its progress file longer, three times. The agent cuts"
        " them every few seconds. It is posted once.",
        "See what its programs write to the files that the text names.",
    ),
    Event.UNENFORCED_POD_DELETED: About(
        CLUSTER, "Pod",
        "The agent reported the pod as unenforced, and `enforcement` of the card's family is `kill`.",
        "As for `SliceUnenforced`.",
    ),
    Event.SLICE_CONFLICT: About(
        CLUSTER, "Pod",
        "The slice of the pod is used by a container of another one, which the text names: two grants overlap, or"
        " somebody wrote that the other pod had ended while it ran. The pod, which does not run, is deleted. This"
        " should never happen.",
        "See that the admission policies `vgpu-grants` and `vgpu-ends` are installed (`vgpu check`). If they are,"
        " report it as a defect, with the text and the logs of the cluster service.",
    ),
    Event.SLICES_IDLE: About(
        AGENT, "Pod",
        "All slices of the pod have been idle for nearly as long as its idle limit (`vgpu.io/idle-limit`) allows. The"
        " pod is evicted after the time in the text, 15 minutes later, if they stay idle.",
        "Let the program compute, or give the annotation a longer time: the value of now counts. If you no longer need"
        " the pod, delete it.",
    ),
    Event.SLICES_IN_USE: About(
        AGENT, "Pod",
        "After `SlicesIdle` a slice of the pod computed or its memory changed, or the pod's idle limit has changed: the"
        " pod is not evicted.",
        "Nothing.", warning=False,
    ),
    Event.IDLE_POD_EVICTED: About(
        CLUSTER, "Pod",
        "All slices of the pod had been idle for its idle limit (`vgpu.io/idle-limit`, its own or its namespace's"
        " default), and the pod was evicted.",
        "Create the pod again when you need it. A longer time in the annotation keeps it longer.",
    ),
    Event.IDLE_POD_KEPT: About(
        CLUSTER, "Pod",
        "All slices of the pod have been idle for its idle limit, and the API server refuses its eviction, mostly by a"
        " PodDisruptionBudget. It is tried again after 30 s, then ever later, at least every 10 minutes. It is posted"
        " once.",
        "Nothing, if the budget is to keep the pod. Otherwise change the budget, or delete the pod.",
    ),
    Event.PREEMPTED: About(
        CLUSTER, "Pod",
        "The pod was evicted: a pod of higher priority needs its slice.",
        "Nothing; its owner makes it again.",
    ),
    Event.PREEMPTING: About(
        CLUSTER, "Pod",
        "Pods of lower priority were evicted for this pod. Their slices are held for it.",
        "Wait until they have ended; the text names them.",
    ),
    Event.JOB_WAITS: About(
        ENGINE, "Job",
        "There was no room for the Job when it was created; the text says what it waits for, and its place in its queue"
        " then. It is posted once.",
        "Nothing; it starts when there is room. `vgpu why` says its place now.", warning=False,
    ),
    Event.JOB_ADMITTED: About(
        ENGINE, "Job", "The Job was started, or goes on after it was stopped; the text has its width.", "Nothing.",
        warning=False,
    ),
    Event.JOB_GROWN: About(
        ENGINE, "Job", "The Job gets more pods, because there are cards that no waiting Job can use.", "Nothing.",
        warning=False,
    ),
    Event.JOB_SHRUNK: About(
        ENGINE, "Job", "Pods of the Job leave, for the Job that the text names or for other pods.",
        "Nothing; it grows again when there is room. A higher `vgpu.io/min-replicas` keeps more of them, and"
        " `vgpu.io/min-runtime` keeps all from Jobs of its priority for a while after each start.",
        warning=False,
    ),
    Event.JOB_STOPPED: About(
        ENGINE, "Job",
        "The Job was suspended, so that the Job that the text names can run, or because there was no room for some of"
        " its pods, as after the death of a node, or because it is held (`vgpu.io/hold`).",
        "Nothing; it goes on when there is room again, and a held Job after `vgpu resume`. It is stopped for a Job of"
        " its priority only if it is resumable"
        " (`vgpu.io/resumable`, or the engine's settings).", warning=False,
    ),
    Event.JOB_REFUSED: About(
        ENGINE, "Job",
        "The Job could not run even if nothing else did, it contradicts others of its group or split, it cannot be"
        " sized (it runs on with its width where its program reports no progress), or something on it cannot be read;"
        " the text says which. It is posted again when the text changes, or another replica takes over.",
        "Do what the text says. The Job is considered again when it changes, and when nodes are added.",
    ),
    Event.PODS_REFUSED: About(
        ENGINE, "Job",
        "The API server refuses pods of the Job, by a quota or an admission policy that the text names. The Job goes"
        " back to the pods that it has, or stops, and is tried again after the time in the text.",
        "Ask for fewer pods, wait for others of the namespace to end, or let an administrator raise the quota.",
    ),
    Event.CHECKPOINT_MISSED: About(
        ENGINE, "Job",
        "The program was asked for a checkpoint and reported none in the time that the text names. Its pods leave"
        " nevertheless.",
        "Give it more time with `vgpu.io/checkpoint-seconds`, and let it call `vgpu-checkpoint done`.",
    ),
}  # fmt: skip
