"""Why a request cannot be granted now: values, not exceptions, with a text and what to do about it."""

from enum import Enum


class Reason(Enum):
    """A cause of a refusal. The value is a label of the metrics; `text` follows a number of cards or nodes."""

    NO_INVENTORY = "no-inventory"
    NOT_SERVING = "not-serving"
    FAMILY = "family"
    MODEL = "model"
    UUID = "uuid"
    UNHEALTHY = "unhealthy"
    CORDONED = "cordoned"
    SHORT = "short"
    TOO_LARGE = "too-large"
    OTHER_SLICES = "other-slices"
    MEMORY = "memory"
    CORES = "cores"
    SLICES = "slices"
    WHOLE = "whole"
    TOGETHER = "together"
    HOST = "host"
    APART = "apart"
    GANG = "gang"
    GANG_ROOM = "gang-room"
    POLICY = "policy"
    MALFORMED = "malformed"

    @property
    def text(self) -> str:
        """The cause in a few words that follow a count: `4 lack memory`."""
        return _TEXT[self][0]

    @property
    def advice(self) -> str:
        """The action that helps, for the pod's author or the cluster's operator."""
        return _TEXT[self][1]


_TEXT = {
    Reason.NO_INVENTORY: (
        "showing no card",
        "check that a node agent runs there (kubectl -n vgpu-system get pods -o wide) and what its /readyz says",
    ),
    Reason.NOT_SERVING: ("whose agent is not serving", "wait for the node agent, or look at its /readyz"),
    Reason.FAMILY: (
        "offered under another resource name",
        "ask for a resource that the nodes have, such as hygon.com/dcu: kubectl describe node shows them",
    ),
    Reason.MODEL: ("of another model", "change the annotation vgpu.io/card-model"),
    Reason.UUID: ("excluded by uuid", "change the annotation vgpu.io/card-uuid"),
    Reason.UNHEALTHY: ("unhealthy", "see the cause in the events of the node: kubectl describe node"),
    Reason.CORDONED: ("cordoned", "wait, or ask an operator to run vgpu uncordon CARD"),
    Reason.SHORT: (
        "reporting less than is granted of them",
        "check the driver: the card reports less memory or fewer core groups than before, and gets new slices"
        " once enough of its slices have ended (see vgpu cards)",
    ),
    Reason.TOO_LARGE: ("too small for the request", "ask for less"),
    Reason.OTHER_SLICES: (
        "able to give another number of slices than the whole cards that are asked for",
        "write in -slices all slices that the cards can give (see SLICES in vgpu cards), or ask for another model",
    ),
    Reason.MEMORY: ("lack memory", "wait for slices to end, or ask for less memory"),
    Reason.CORES: ("lack core groups", "wait for slices to end, or ask for fewer core groups"),
    Reason.SLICES: (
        "full",
        "wait for slices to end: a card holds a limited number of slices, whatever their size (see vgpu cards)",
    ),
    Reason.WHOLE: ("not wholly free", "wait for slices to end, or ask for a slice"),
    Reason.TOGETHER: (
        "fit a part of the pod, but no node fits all of it",
        "split the pod, or wait for slices to end",
    ),
    Reason.HOST: (
        "on nodes with too little free CPU, memory or disk",
        "wait for pods to end, or request less CPU, memory and disk",
    ),
    Reason.APART: (
        "on nodes of other pods of its group",
        "add nodes, or leave out the label vgpu.io/group: node-score puts each pod of a group on a node of its own",
    ),
    Reason.GANG: (
        "not considered until all pods of the group exist",
        "create the missing pods, or correct the label vgpu.io/group-size",
    ),
    Reason.GANG_ROOM: (
        "fit a part of the group, but not all of it",
        "wait for slices to end, or make the group smaller",
    ),
    Reason.POLICY: (
        "not considered",
        "correct the annotation vgpu.io/policy (such as fragmentation or pack), or vgpu.io/app-type",
    ),
    Reason.MALFORMED: ("not considered", "change the pod as the text says"),
}
