"""Obstacles: scheduling gates, selectors and volumes that keep a pod from a node although a card is free.

Obstacles are only shown to people; kube-scheduler decides about them. Its last message about the pod is kept too,
because only kube-scheduler knows the labels of nodes and the state of volumes.
"""

import re
from dataclasses import dataclass

# Words in messages of kube-scheduler's own plugins about nodes and volumes; our refusals do not contain them.
_ITS_OWN = re.compile(
    r"affinity|persistent ?volume|\bpvc|taint|unschedulable|topology spread|free ports", re.I
)
_SELECTED = re.compile(r"node affinity/selector|affinity rules")
_VOLUME = re.compile(r"persistent ?volume|\bpvc|volume node affinity", re.I)


@dataclass(frozen=True, slots=True)
class Obstacles:
    """The scheduling gates, node selector and affinity, and volume claims of a pod without a node; all shortened.

    `said` is kube-scheduler's last message about the pod.
    """

    gates: tuple[str, ...] = ()
    selector: str = ""
    claims: tuple[str, ...] = ()
    said: str = ""

    @property
    def gated(self) -> str:
        """A text with the names of the scheduling gates; empty if there is none."""
        return f"scheduling gate {', '.join(self.gates)}" if self.gates else ""

    @property
    def text(self) -> str:
        """The obstacle that keeps the pod from a free card, as text; empty if none is known."""
        if self.gates:
            return self.gated
        if not _ITS_OWN.search(self.said):
            return ""
        named = [self.selector] if self.selector and _SELECTED.search(self.said) else []
        if self.claims and _VOLUME.search(self.said):
            named.append(f"volume claim {', '.join(self.claims)}")
        return ": ".join((", ".join(named), self.said)) if named else self.said


NONE = Obstacles()
