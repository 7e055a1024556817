"""The texts of refusals by node, as /filter shows them."""

from collections.abc import Mapping, Sequence

from device_plugin.core.placement import Refusal
from device_plugin.core.placement.offer import Offer


def by_node(refusal: Refusal, nodes: Sequence[str]) -> Mapping[str, str]:
    """The text for each of `nodes`, where the rows are still those of the decision."""
    return dict(refusal.by_node(Offer(refusal.of_nodes.position, nodes)))
