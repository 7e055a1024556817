"""Groups of nodes that refuse a request: nodes with equal card models and an equal first reason form a group."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.reasons import Reason
from device_plugin.core.placement.refusal import ORDER, Refusal

Models = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RefusingNodes:
    """Nodes with equal card models and an equal first reason to refuse a request.

    `refusal` is the refusal if only these nodes are offered.
    """

    nodes: tuple[str, ...]
    models: Models
    reason: Reason
    refusal: Refusal


def refusing_nodes(
    refusal: Refusal, nodes: Sequence[str], models: Callable[[str], Models],
    refuse: Callable[[Sequence[str]], Refusal],
) -> tuple[RefusingNodes, ...]:  # fmt: skip
    """The groups of `nodes` by card models and first reason; the reason that is easiest to cure comes first.

    Empty if the refusal compared no card. `models` returns the card models of a node, and `refuse` the refusal of the
    request if only the given nodes are offered.
    """
    if refusal.said:
        return ()
    ranks = (*ORDER, Reason.NO_INVENTORY)
    found: dict[tuple[Reason, Models], list[str]] = {}
    for node, rank in zip(nodes, refusal.of_nodes.of(nodes), strict=True):
        found.setdefault((ranks[rank], models(node)), []).append(node)
    return tuple(
        RefusingNodes(tuple(group), shown, reason, refuse(group))
        for (reason, shown), group in sorted(found.items(), key=_by_cure)
    )


def _by_cure(item: tuple[tuple[Reason, Models], Iterable[str]]) -> tuple[int, Models]:
    reason, models = item[0]
    return ORDER.index(reason), models
