"""Reads a card's use in the last hours from Prometheus, when the page shows the card."""

import json
import time
from collections.abc import Mapping

from device_plugin.cli.access.prometheus import Prometheus, PrometheusError
from device_plugin.cli.ui.entries import PageEntries

HOURS, STEP_SECONDS = 6, 120
# By the name that the page shows, the query for a card's series, with values from 0 to 1.
_QUERIES = {
    "memory used": "vgpu_card_memory_used_bytes{0} / vgpu_card_memory_bytes{0}",
    "computing": "vgpu_card_busy_ratio{0}",
}
# Prometheus keeps the agent's own label under the second name unless it is set to honour it (honor_labels).
_NODE_LABELS = ("node", "exported_node")


class CardUse:
    """Answers how a card of a shown node was used. Prometheus is not asked about cards of other nodes."""

    def __init__(self, prometheus: Prometheus, entries: PageEntries) -> None:
        self._prometheus = prometheus
        self._entries = entries

    def answer(self, query: Mapping[str, str]) -> object:
        """Returns the series of the card `card` of the node `node`, by name, or a `problem`. Raises LookupError.

        `from` and `to` are the times of the series, and `step` is the time between two values, all in seconds.
        """
        node, card = query.get("node", ""), query.get("card", "")
        if node not in self._entries.keys("node"):
            raise LookupError("this node is not shown")
        # A JSON text is a text of PromQL too.
        among = [f"{{{label}={json.dumps(node)},card={json.dumps(card)}}}" for label in _NODE_LABELS]
        end = time.time()
        try:
            series = {
                # Each pod of an agent exports its own series: max() joins the series of an old and a new pod.
                name: self._series(f"max({' or '.join(text.format(labels) for labels in among)})", end)
                for name, text in _QUERIES.items()
            }
        except PrometheusError as error:
            return {"problem": str(error)}
        return {"from": end - HOURS * 3600, "to": end, "step": STEP_SECONDS, "series": series}

    def _series(self, text: str, end: float) -> list[list[float]]:
        """Returns pairs of time and value of one series; values that are not numbers are left out."""
        found = self._prometheus.over_time(text, end - HOURS * 3600, end, STEP_SECONDS)
        pairs = found[0].values if found else ()
        return [[at, value] for at, value in pairs if 0 <= value < 1e6]
