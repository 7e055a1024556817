"""The states that commands print in lists, each with its cause and advice, for the reference page of messages."""

from typing import NamedTuple


class State(NamedTuple):
    """A state: the command that prints it, its text, its cause and advice."""

    command: str
    text: str
    cause: str
    advice: str


_AGENT = "see its pod: kubectl get pods -A -o wide -l app.kubernetes.io/name=vgpu, and its log"
STATES = (
    State("cards, nodes", "unhealthy", "the driver or the kernel reports a fault", "see kubectl describe node"),
    State("cards, nodes", "cordoned", "somebody ran vgpu cordon", "wait, or run vgpu uncordon CARD"),
    State("cards, nodes", "agent does not serve", "the node agent does not run, or has a problem", _AGENT),
    State("cards", "not shown by its node", "a pod holds a slice of a card that the agent does not find", _AGENT),
    State("nodes", "its inventory cannot be read", "the agent is of another version", "give all parts one version"),
    State(
        "cards", "its pod has ended, its processes have not",
        "processes outlive their container, and the slice stays taken",
        "end them on the node; the event of the node names them",
    ),
    State(
        "cards", "something covers the files that limit it",
        "a volume of the pod lies over the library or its configuration",
        "delete the pod, and see vgpu check: admission refuses such volumes",
    ),
    State(
        "cards", "bypasses the library that limits it",
        "the program is linked statically, for example, and the library is not loaded",
        "see the event SliceUnenforced of the pod",
    ),
    State(
        "cards", "cannot start: another pod's container runs on its slice",
        "somebody wrote that the other pod had ended while it ran, or two grants overlap",
        "nothing: the pod is deleted, and the next one of its owner is placed elsewhere; see its event SliceConflict",
    ),
    State("cards", "does not run", "the pod is bound, its container has not started", "see kubectl describe pod"),
    State("drain", "stays for now", "a PodDisruptionBudget protects the pod", "wait, or change the budget"),
    State("drain", "waiting for", "a pod, or a process of one, has not ended yet", "wait; --timeout ends the waiting"),
    State("queue", "room for", "as many cards are not free, or kept for others", "wait; vgpu why job/NAME says more"),
    State("queue", "pods of other jobs that leave", "its cards are being freed", "wait"),
    State(
        "queue", "pods that may be created", "its pods were refused, by a quota for example",
        "see kubectl describe job",
    ),
    State("queue", "Kueue", "Kueue admits the job, not this queue", "see its Workload"),
    State("queue", "pods that do not run yet", "they were created a moment ago", "wait, or see kubectl describe pod"),
    State("queue", "pods that leave or come", "its width is being changed", "wait"),
    State("queue", "pods that have not ended yet", "it is being stopped", "wait for their grace period"),
    State("queue", "its release", "its author holds it", "let it go on with `vgpu resume`"),
    State("queue", "the next round", "the engine has just seen it", "wait some seconds"),
    State("queue", "a correction", "the engine refuses the job", "change it as vgpu why job/NAME says"),
)  # fmt: skip
