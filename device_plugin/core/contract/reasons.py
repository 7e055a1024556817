"""Reasons why a request cannot be granted now: values, not exceptions, each with a text and advice."""

from device_plugin.core.situations import Situation


class Reason(Situation):
    """A cause of a refusal. Its value is a label in metrics; its `text` follows a number of cards: `4 lack memory`."""

    NO_INVENTORY = (
        "no-inventory",
        "showing no card",
        "check that a node agent runs there (kubectl get pods -A -o wide -l app.kubernetes.io/name=vgpu)"
        " and what its /readyz says",
    )
    NOT_SERVING = (
        "not-serving",
        "whose agent is not serving",
        "wait for the node agent, or look at its /readyz",
    )
    CLAIMS = (
        "claims",
        "on nodes that prepare no ResourceClaims",
        "ask for the slice in limits, or ask an operator to have these nodes prepare ResourceClaims: vgpu check"
        " shows what is missing",
    )
    FAMILY = (
        "family",
        "offered under another resource name",
        "ask for a resource that the nodes have, such as hygon.com/dcu: kubectl describe node shows them",
    )
    MODEL = "model", "of another model", "change the annotation vgpu.io/card-model"
    UUID = "uuid", "excluded by uuid", "change the annotation vgpu.io/card-uuid"
    UNHEALTHY = "unhealthy", "unhealthy", "see the cause in the events of the node: kubectl describe node"
    CORDONED = "cordoned", "cordoned", "wait, or ask an operator to run vgpu uncordon CARD"
    SHORT = (
        "short",
        "reporting less than is granted of them",
        "check the driver: the card reports less memory or fewer core groups than before, and gets new"
        " slices once enough of its slices have ended (see vgpu cards)",
    )
    TOO_LARGE = "too-large", "too small for the request", "ask for less"
    OTHER_SLICES = (
        "other-slices",
        "with another number of slices than the request has in -slices",
        "write in -slices all slices that the cards can give (see SLICES in vgpu cards), or ask for"
        " another model",
    )
    MEMORY = "memory", "lack memory", "wait for slices to end, or ask for less memory"
    CORES = "cores", "lack core groups", "wait for slices to end, or ask for fewer core groups"
    SLICES = (
        "slices",
        "full",
        "wait for slices to end: a card holds a limited number of slices, whatever their size (see vgpu"
        " cards)",
    )
    WHOLE = "whole", "not wholly free", "wait for slices to end, or ask for a slice"
    TOGETHER = (
        "together",
        "fit a part of the pod, but no node fits all of it",
        "split the pod, or wait for slices to end",
    )
    HOST = (
        "host",
        "on nodes with too little free CPU, memory or disk",
        "wait for pods to end, or request less CPU, memory and disk",
    )
    APART = (
        "apart",
        "on nodes of other pods of its group",
        "add nodes, or leave out the label vgpu.io/group: node-score puts each pod of a group on a node"
        " of its own",
    )
    GANG = (
        "gang",
        "not considered until all pods of the group exist",
        "create the missing pods, or correct the label vgpu.io/group-size",
    )
    GANG_ROOM = (
        "gang-room",
        "fit a part of the group, but not all of it",
        "wait for slices to end, or make the group smaller",
    )
    POLICY = (
        "policy",
        "not considered",
        "correct the annotation vgpu.io/policy (such as fragmentation or pack), or vgpu.io/app-type",
    )
    MALFORMED = "malformed", "not considered", "change the pod as the text says"
