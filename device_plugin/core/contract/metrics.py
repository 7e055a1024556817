"""Metrics: each is declared once, next to the code that makes its samples, with its type, labels, exporter and help.

Each fact has one exporter. A node's agent exports the facts of the node, the leading replica of the cluster service the
decisions about pods, and the leading replica of the job engine the facts of Jobs. In addition, each replica exports its
own health and work. docs/reference/metrics.md is made from these declarations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

CARD = ("node", "card")
"""Labels of a fact about one card."""
SLICE = (*CARD, "namespace", "pod", "container")
"""Labels of a fact about one container's slice of a card."""
CONTAINER = ("node", "namespace", "pod", "container")
"""Labels of a fact about a container as a whole, with all of its cards."""

Samples = Iterable[tuple[Sequence[str], float]]
"""Label values, in the order of the metric's labels, and the value."""
OTHERS = "(others)"
"""The label value of a sample that sums several others. No Kubernetes object can have this name."""


class MetricType(Enum):
    """The Prometheus types of metrics that this project uses; a value that only grows is a counter."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Exporter(Enum):
    """The process that exports a metric, in words for the reference page."""

    AGENT = "node agent"
    LEADER = "cluster service, leading replica only"
    REPLICA = "cluster service, each replica of itself"
    ENGINE = "job engine, leading replica only"
    ENGINE_REPLICA = "job engine, each replica of itself"
    PROCESS = "all services, each process of itself"


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric. It must be a global of its module, because hack/generate/reference looks there.

    `name` ends in the base unit (`_bytes`, `_seconds`, `_ratio`), and in `_total` if the metric is a counter.
    """

    name: str
    exporter: Exporter
    help: str
    labels: tuple[str, ...] = ()
    type: MetricType = MetricType.GAUGE


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric with its present samples; the samples may be an iterator, which can be read only once.

    A sample of a histogram has one more label value, an upper bound, and counts the observations up to this bound; the
    last bound is `+Inf`. `total` is the sum of the observations.
    """

    metric: Metric
    samples: Samples
    total: float = 0.0


Labels = TypeVar("Labels", bound=tuple[str, ...])


def largest(
    amounts: Mapping[Labels, float], most: int, merged: Callable[[Labels], Labels]
) -> Sequence[tuple[Labels, float]]:
    """The `most` largest amounts, and sums of the other amounts; sorted by labels.

    The other amounts are summed under the labels that `merged` makes of their labels. So the number of samples is
    bounded, however many names tenants use.
    """
    ranked = sorted(amounts, key=lambda labels: (-amounts[labels], labels))
    kept = {labels: amounts[labels] for labels in ranked[:most]}
    for labels in ranked[most:]:
        kept[merged(labels)] = kept.get(merged(labels), 0.0) + amounts[labels]
    return sorted(kept.items())
