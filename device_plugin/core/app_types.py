"""Application types: the resource that a pod needs most, and its weights in the placement policy `node-score`."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field

TYPES = ("gpu", "cpu", "memory")
DEFAULT_TYPE = "gpu"
# The score of a node is a weighted sum over its resources, of free shares or of free amounts.
FREE = SHARE, COUNT = ("share", "count")


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of each resource in the score of a node, 0 to 1; the sum of the weights is 1."""

    gpu: float
    cpu: float
    memory: float
    disk: float

    def __str__(self) -> str:
        """The weights as people write them: `{gpu: 0.6, cpu: 0.2, memory: 0.1, disk: 0.1}`."""
        parts = zip(("gpu", "cpu", "memory", "disk"), astuple(self), strict=True)
        return f"{{{', '.join(f'{name}: {weight:g}' for name, weight in parts)}}}"


DEFAULT_WEIGHTS: Mapping[str, Weights] = {
    "gpu": Weights(gpu=0.6, cpu=0.2, memory=0.1, disk=0.1),
    "cpu": Weights(gpu=0, cpu=0.6, memory=0.3, disk=0.1),
    "memory": Weights(gpu=0, cpu=0.3, memory=0.6, disk=0.1),
}


@dataclass(frozen=True, slots=True)
class Scoring:
    """The settings of `node-score`: the weights of each application type, and when a card counts as fully used.

    If `counts` is true, scores add free amounts, else free shares. A card counts as fully used if more than
    `most_memory` of its memory is granted or in use, or if more than `most_load` of its core groups is granted or of
    its time is busy.
    """

    weights: Mapping[str, Weights] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    most_memory: float = 0.9
    most_load: float = 0.9
    counts: bool = False


Rule = tuple[str, Callable[[Weights], bool]]
_NO_GPU: Rule = ("gpu = 0", lambda w: w.gpu == 0)
_RULES: Mapping[str, tuple[Rule, ...]] = {
    "gpu": (
        ("gpu > cpu + memory + disk", lambda w: w.gpu > w.cpu + w.memory + w.disk),
        ("cpu > memory", lambda w: w.cpu > w.memory),
    ),
    "cpu": (_NO_GPU, ("cpu > memory > disk", lambda w: w.cpu > w.memory > w.disk)),
    "memory": (_NO_GPU, ("memory > cpu > disk", lambda w: w.memory > w.cpu > w.disk)),
}


def problem(app_type: str, weights: Weights) -> str:
    """The rule that the weights of an application type break, as text; empty if they break none."""
    rules: tuple[Rule, ...] = (
        ("each from 0 to 1", lambda w: all(0 <= weight <= 1 for weight in astuple(w))),
        ("a sum of 1", lambda w: abs(sum(astuple(w)) - 1) < 1e-6),
        *_RULES[app_type],
    )
    broken = next((text for text, holds in rules if not holds(weights)), "")
    return f"{weights} breaks the rule `{broken}`" if broken else ""
