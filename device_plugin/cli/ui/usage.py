"""Reads the use of cards and nodes over time from Prometheus, when the page shows them."""

import json
import threading
import time
from collections.abc import Mapping

from device_plugin.cli.access.prometheus import Prometheus, PrometheusError
from device_plugin.cli.ui.day import COLUMN_SECONDS, COLUMNS, UNKNOWN, level
from device_plugin.cli.ui.entries import PageEntries

# The hours that people can choose, the default first, and the number of values of each answer.
HOURS, VALUES = (6, 1, 24), 180
# By the name that the page shows, the query for a card's series, with values from 0 to 1.
_QUERIES = {
    "memory used": "vgpu_card_memory_used_bytes{0} / vgpu_card_memory_bytes{0}",
    "computing": "vgpu_card_busy_ratio{0}",
}
# Prometheus keeps the agent's own label under the second name unless it is set to honour it (honor_labels).
_NODE_LABELS = ("node", "exported_node")
# The used share of each node's memory. Each pod of an agent exports its own series of a card: max() joins them.
_DAY = " / ".join(
    f"sum by (node, exported_node) (max by (node, exported_node, card) ({name}))"
    for name in ("vgpu_card_memory_used_bytes", "vgpu_card_memory_bytes")
)


class CardUse:
    """Answers how a card of a shown node was used. Prometheus is not asked about cards of other nodes."""

    def __init__(self, prometheus: Prometheus, entries: PageEntries) -> None:
        self._prometheus = prometheus
        self._entries = entries

    def answer(self, query: Mapping[str, str]) -> object:
        """Returns the series of a card over the last hours, by name, or a `problem`.

        The query has the `node`, the `card`, and the number of `hours`, one of HOURS. In the answer, `from` and `to`
        are the times of the series, and `step` is the time between two values, all in seconds. Raises LookupError if
        the page does not show the node.
        """
        node, card = query.get("node", ""), query.get("card", "")
        if node not in self._entries.keys("node"):
            raise LookupError("this node is not shown")
        # A JSON text is a text of PromQL too.
        among = [f"{{{label}={json.dumps(node)},card={json.dumps(card)}}}" for label in _NODE_LABELS]
        end, hours = time.time(), _hours(query.get("hours", ""))
        begin, step = end - hours * 3600, hours * 3600 // VALUES
        try:
            series = {
                # Each pod of an agent exports its own series: max() joins the series of an old and a new pod.
                name: self._series(
                    f"max({' or '.join(text.format(labels) for labels in among)})", begin, end, step
                )
                for name, text in _QUERIES.items()
            }
        except PrometheusError as error:
            return {"problem": str(error)}
        return {"from": begin, "to": end, "step": step, "series": series}

    def _series(self, text: str, begin: float, end: float, step: int) -> list[list[float]]:
        """Returns pairs of time and value of one series; negative, very large and unknown values are left out."""
        found = self._prometheus.over_time(text, begin, end, step)
        pairs = found[0].values if found else ()
        return [[at, value] for at, value in pairs if 0 <= value < 1e6]


def _hours(text: str) -> int:
    """The number of hours in a query; the default if it is none of HOURS."""
    return next((hours for hours in HOURS if text == str(hours)), HOURS[0])


class NodeUse:
    """Answers how much of each shown node's memory was used over a day; Prometheus is asked once for all browsers."""

    def __init__(self, prometheus: Prometheus, entries: PageEntries) -> None:
        self._prometheus = prometheus
        self._entries = entries
        self._lock = threading.Lock()
        self._last, self._days = 0, dict[str, str]()

    def answer(self, query: Mapping[str, str]) -> object:  # noqa: ARG002 - it answers for all nodes
        """Returns the used share of each shown node's memory over a day, a character for each column, or a `problem`.

        `last` in the answer is the number of the last column: its time in seconds since 1970, divided by
        COLUMN_SECONDS.
        """
        last = int(time.time() // COLUMN_SECONDS)
        with self._lock:
            if last != self._last:
                try:
                    self._days = self._read(last)
                except PrometheusError as error:
                    return {"problem": str(error)}
                self._last = last
            shown = self._entries.keys("node")
            return {"last": last, "nodes": {name: day for name, day in self._days.items() if name in shown}}

    def _read(self, last: int) -> dict[str, str]:
        """Returns the use of each node that Prometheus knows, by the node's name, as a text with a character a column.

        The character is the level of use in the column's time; `last` is the number of the last column. Raises
        PrometheusError.
        """
        found = self._prometheus.over_time(
            _DAY, (last - COLUMNS + 1) * COLUMN_SECONDS, last * COLUMN_SECONDS, COLUMN_SECONDS
        )
        days = dict[str, str]()
        for series in found:
            levels = {
                int(at // COLUMN_SECONDS): level(value) for at, value in series.values if 0 <= value < 1e6
            }
            days[series.labels.get("exported_node") or series.labels.get("node", "")] = "".join(
                levels.get(column, UNKNOWN) for column in range(last - COLUMNS + 1, last + 1)
            )
        return days
