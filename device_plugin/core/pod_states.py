"""States of pods that are not refused, each with a text and advice; a refused pod has a Reason."""

from device_plugin.core.situations import Situation


class PodState(Situation):
    """The state of a pod that no Reason refuses. Its value is in JSON and, for a waiting pod, in metrics.

    `text` describes the pod in `vgpu why` and /explain, next to names and amounts.
    """

    FITS = (
        "fits",
        "kube-scheduler has not tried it yet",
        "wait some minutes, then see the events of the pod and the log of kube-scheduler",
    )
    HELD = "held", "the pod is held by", "remove the gate, change the pod, or add what it requires"
    CLAIM = (
        "claim",
        "waits for its claim",
        "create the ResourceClaim, or the template that the pod names; for devices of another driver, give the pod"
        " another schedulerName",
    )
    PREEMPTING = (
        "preempting",
        "kept for it and still used by",
        "wait until these pods have ended; if one does not end, see kubectl describe pod",
    )
    KEPT = "kept", "kept for it", "wait: kube-scheduler tries it again within seconds"
    BOUND = "bound", "holds", "nothing; if its containers do not run, see kubectl describe pod"
    ENDED = "ended", "has ended: it holds nothing any more", "nothing"
    NO_SLICE = (
        "no-slice",
        "asks for no slice, so vgpu does not place it",
        "nothing; to get one, write limits such as hygon.com/dcu-mem: 4",
    )


WAITING_STATES = (
    PodState.FITS,
    PodState.HELD,
    PodState.CLAIM,
    PodState.PREEMPTING,
    PodState.KEPT,
    PodState.NO_SLICE,
)
"""The states of pods of our scheduler that have no node, and that no Reason refuses."""
