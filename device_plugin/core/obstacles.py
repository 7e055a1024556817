"""What besides cards keeps a pod from a node: scheduling gates, selectors, volumes.

It is for people only, nothing is decided by it: these are kube-scheduler's to judge. Its own last words are kept too,
because it alone knows the labels of nodes and the state of volumes.
"""

import re
from dataclasses import dataclass

# What kube-scheduler's plugins say of nodes and volumes, and what no refusal of ours says.
_ITS_OWN = re.compile(
    r"affinity|persistent ?volume|\bpvc|taint|unschedulable|topology spread|free ports", re.I
)
_SELECTED = re.compile(r"node affinity/selector|affinity rules")
_VOLUME = re.compile(r"persistent ?volume|\bpvc|volume node affinity", re.I)


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What a pod that has no node says: scheduling gates, node selector and affinity, and claims; all shortened.

    `said` is what kube-scheduler last wrote of it.
    """

    gates: tuple[str, ...] = ()
    selector: str = ""
    claims: tuple[str, ...] = ()
    said: str = ""

    @property
    def gated(self) -> str:
        """The gates by name; empty if there is none."""
        return f"scheduling gate {', '.join(self.gates)}" if self.gates else ""

    @property
    def text(self) -> str:
        """What keeps the pod from a node where a card is free; empty if nothing is known to."""
        if self.gates:
            return self.gated
        if not _ITS_OWN.search(self.said):
            return ""
        named = [self.selector] if self.selector and _SELECTED.search(self.said) else []
        if self.claims and _VOLUME.search(self.said):
            named.append(f"volume claim {', '.join(self.claims)}")
        return ": ".join((", ".join(named), self.said)) if named else self.said


NONE = Obstacles()
