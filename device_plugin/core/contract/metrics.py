"""Metrics: each is declared once, next to the code that reads it, with its type, labels, exporter and help.

A fact has one exporter: what a node knows comes from its agent, what the cluster decides from the leading replica of
the cluster service, and what becomes of Jobs from that of the job engine. In addition, a replica exports only its own
health and its own work. docs/reference/metrics.md is made from these declarations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

CARD = ("node", "card")
"""Labels of a fact about one card."""
SLICE = (*CARD, "namespace", "pod", "container")
"""Labels of a fact about what one container holds of a card."""
CONTAINER = ("node", "namespace", "pod", "container")
"""Labels of a fact about a container, whichever cards it holds."""

Samples = Iterable[tuple[Sequence[str], float]]
"""Label values, in the order of the metric's labels, and the value."""
OTHERS = "(others)"
"""A label value of samples that stand for several. Kubernetes allows no object this name."""


class MetricType(Enum):
    """The types of Prometheus that this project uses. A value that only grows is a counter."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Exporter(Enum):
    """The process that exports a metric."""

    AGENT = "node agent"
    LEADER = "cluster service, leading replica only"
    REPLICA = "cluster service, each replica of itself"
    ENGINE = "job engine, leading replica only"
    ENGINE_REPLICA = "job engine, each replica of itself"
    PROCESS = "all services, each process of itself"


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric. Assign it to a name of its module: hack/generate/reference finds it there.

    `name` ends in the base unit (`_bytes`, `_seconds`, `_ratio`), and in `_total` if the metric is a counter.
    """

    name: str
    exporter: Exporter
    help: str
    labels: tuple[str, ...] = ()
    type: MetricType = MetricType.GAUGE


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric with its present samples. The samples may be an iterator, which can be read once.

    The samples of a histogram have one more label value, the upper bound, and give the number of observations up to it;
    the last bound is `+Inf`. `total` is the sum of its observations.
    """

    metric: Metric
    samples: Samples
    total: float = 0.0


Labels = TypeVar("Labels", bound=tuple[str, ...])


def largest(
    amounts: Mapping[Labels, float], most: int, merged: Callable[[Labels], Labels]
) -> Sequence[tuple[Labels, float]]:
    """The `most` largest amounts in the order of their labels, with the sums of the others by `merged` labels.

    A process exports at most 5,000 samples, whatever names tenants make up.
    """
    ranked = sorted(amounts, key=lambda labels: (-amounts[labels], labels))
    kept = {labels: amounts[labels] for labels in ranked[:most]}
    for labels in ranked[most:]:
        kept[merged(labels)] = kept.get(merged(labels), 0.0) + amounts[labels]
    return sorted(kept.items())
