"""States of a pod that is not refused, with a text and what to do; a refused one has a Reason instead."""

from enum import Enum


class PodState(Enum):
    """Where a pod is, if no Reason keeps it from a card. The value is in JSON and, for a waiting pod, in metrics."""

    FITS = "fits"
    HELD = "held"
    PREEMPTING = "preempting"
    KEPT = "kept"
    BOUND = "bound"
    ENDED = "ended"
    NO_SLICE = "no-slice"

    @property
    def text(self) -> str:
        """The words for it in `vgpu why` and /explain, beside names and amounts."""
        return _TEXT[self][0]

    @property
    def advice(self) -> str:
        """What to do; empty where nothing need be done."""
        return _TEXT[self][1]


_TEXT = {
    PodState.FITS: (
        "kube-scheduler has not tried it yet",
        "wait some minutes, then see the events of the pod and the log of kube-scheduler",
    ),
    PodState.HELD: (
        "the pod is held by",
        "remove the gate, change the pod, or add what it requires",
    ),
    PodState.PREEMPTING: (
        "kept for it and still used by",
        "wait until these pods have ended; if one does not end, see kubectl describe pod",
    ),
    PodState.KEPT: ("kept for it", "wait: kube-scheduler tries it again within seconds"),
    PodState.BOUND: ("holds", "nothing; if its containers do not run, see kubectl describe pod"),
    PodState.ENDED: ("has ended: it holds nothing any more", "nothing"),
    PodState.NO_SLICE: (
        "asks for no slice, so vgpu does not place it",
        "nothing; to get one, write limits such as hygon.com/dcu-mem: 4",
    ),
}
WAITING_STATES = (PodState.FITS, PodState.HELD, PodState.PREEMPTING, PodState.KEPT, PodState.NO_SLICE)
"""The states of pods of our scheduler that have no node, and that no Reason refuses."""
