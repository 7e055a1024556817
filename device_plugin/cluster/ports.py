"""What the cluster service needs of the outside; `wiring` joins it to the adapters.

Errors of the API server, as far as they make a difference here:

VgpuError
└── ApiError          it did not do what was asked
    ├── GoneError     the object is not there, or is another one of the same name
    ├── RefusedError  it said no, and nothing was written
    └── UnknownError  no answer, or one that does not tell: it may or may not have happened
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from device_plugin.core.errors import VgpuError
from device_plugin.core.events import Event
from device_plugin.core.loads import Load
from device_plugin.core.pods import Node, Pod


class ApiError(VgpuError):
    """The API server did not do what was asked."""


class GoneError(ApiError):
    """The object is not there, or another one has its name."""


class RefusedError(ApiError):
    """The API server said no; nothing was written."""


class UnknownError(ApiError):
    """No answer, or one that leaves open whether it happened."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The scheduler's Lease. `renewed` is only compared with itself: no two machines' clocks agree."""

    holder: str
    renewed: str


class Api(Protocol):
    """The API server. Every call may raise ApiError."""

    def pods(self) -> Sequence[Pod]:
        """All pods, from a quorum."""

    def nodes(self) -> Sequence[Node]:
        """All nodes, from a quorum."""

    def pod(self, namespace: str, name: str) -> Pod:
        """A pod as it is now. Raises GoneError."""

    def lease(self, namespace: str, name: str) -> Lease | None:
        """The Lease, or None if nobody has made it yet."""

    def bind(self, pod: Pod, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Bind the pod of this uid, annotating and labelling it in the same write; at most 3 s on either side."""

    def delete(self, pod: Pod) -> None:
        """Delete the pod of this uid."""

    def evict(self, pod: Pod, *, dry: bool = False) -> None:
        """Evict the pod of this uid, or if `dry` only ask whether it may go.

        Raises RefusedError where a PodDisruptionBudget forbids it now.
        """

    def touch(self, pod: Pod) -> None:
        """Write the annotation vgpu.io/touched of the pod of this uid, so that kube-scheduler tries the pod again."""

    def warn(self, pod: Pod, event: Event, message: str) -> None:
        """Post a Warning event about a pod."""


class FitError(VgpuError):
    """Tables for a target workload could not be made."""


class Counts(Protocol):
    """What is counted as it happens."""

    def placed(self, seconds: float) -> None:
        """A decision took `seconds`."""

    def bound(self, outcome: str) -> None:
        """A /bind ended as `outcome`."""


ReadLoads = Callable[[str], Mapping[str, Load]]
"""The loads of the cards of the agent at host:port, by uuid; takes a second or two. Raises OSError or ValueError."""


@dataclass(frozen=True, slots=True)
class BindCall:
    """What kube-scheduler asks with /bind: this pod onto this node."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Calls:
    """How kube-scheduler's calls are read; all raise ValueError.

    `filter` gives the pod and the nodes to choose from, `bind` namespace, name and uid of the pod, and the node,
    `preempt` the pod, and nodes with the uids of pods to evict there.
    """

    filter: Callable[[bytes], tuple[Pod, Sequence[str]]]
    bind: Callable[[bytes], tuple[str, str, str, str]]
    preempt: Callable[[bytes], tuple[Pod, Mapping[str, Sequence[str]]]]
