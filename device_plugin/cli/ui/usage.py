"""How much of a card was used over the last hours, asked of Prometheus when the page shows the card."""

import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from device_plugin.cli.ui.entries import PageEntries
from device_plugin.core.errors import VgpuError

HOURS, STEP_SECONDS = 6, 120
TIMEOUT_SECONDS = 10.0
# Bytes of an answer that are read: three series of 180 values take 20 KB.
MOST_BYTES = 1 << 20
# By the name that the page shows: what is asked of a card, as a share from 0 to 1.
_QUERIES = {
    "memory used": "vgpu_card_memory_used_bytes{0} / vgpu_card_memory_bytes{0}",
    "computing": "vgpu_card_busy_ratio{0}",
}
# Prometheus keeps the agent's own label under the second name where it was not told to honour it.
_NODE_LABELS = ("node", "exported_node")


class PrometheusError(VgpuError):
    """Prometheus cannot be asked; the text gives the reason."""


class CardUse:
    """Answers what was used of a card. Nothing is asked about cards that the page does not show."""

    def __init__(self, url: str, entries: PageEntries) -> None:
        """Raises PrometheusError for a URL that is none."""
        self._url = urlsplit(url)
        self._entries = entries
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise PrometheusError(f"{url!r} is no URL: write http://HOST:PORT")

    def answer(self, query: Mapping[str, str]) -> object:
        """The series of the card `card` of the node `node`, by name, or a `problem`. Raises LookupError."""
        node, card = query.get("node", ""), query.get("card", "")
        if node not in self._entries.keys("node"):
            raise LookupError("this node is not shown")
        # A JSON text is a text of PromQL too.
        among = [f"{{{label}={json.dumps(node)},card={json.dumps(card)}}}" for label in _NODE_LABELS]
        end = time.time()
        try:
            series = {
                name: self._series(" or ".join(text.format(labels) for labels in among), end)
                for name, text in _QUERIES.items()
            }
        except PrometheusError as error:
            return {"problem": str(error)}
        return {"from": end - HOURS * 3600, "to": end, "series": series}

    def _series(self, text: str, end: float) -> list[list[float]]:
        """Pairs of time and value; values that are no numbers are left out."""
        words = {
            "query": text,
            "start": f"{end - HOURS * 3600:.0f}",
            "end": f"{end:.0f}",
            "step": STEP_SECONDS,
        }
        found = self._asked(f"{self._url.path.rstrip('/')}/api/v1/query_range?{urlencode(words)}")
        try:
            result = found["data"]["result"] if found.get("status") == "success" else []
            pairs = [(float(at), float(value)) for one in result[:1] for at, value in one["values"]]
        except (LookupError, TypeError, ValueError) as error:
            raise PrometheusError("Prometheus answers what is no result") from error
        return [[at, value] for at, value in pairs if 0 <= value < 1e6]

    def _asked(self, target: str) -> Mapping[str, Any]:
        """Raises PrometheusError."""
        secure = self._url.scheme == "https"
        connection = (HTTPSConnection if secure else HTTPConnection)(
            self._url.hostname or "", self._url.port, timeout=TIMEOUT_SECONDS
        )
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            text = answer.read(MOST_BYTES)
            if answer.status != HTTPStatus.OK:
                raise PrometheusError(f"Prometheus answers {answer.status}")
            found = json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            raise PrometheusError(f"Prometheus does not answer: {error}") from error
        finally:
            connection.close()
        if not isinstance(found, dict):
            raise PrometheusError("Prometheus answers what is no result")
        return found
