"""Asks a Prometheus, by the address that --prometheus names, for values now and over time.

The API is https://prometheus.io/docs/prometheus/latest/querying/api.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from device_plugin.core.errors import VgpuError

TIMEOUT_SECONDS = 10.0
# Bytes of an answer that are read: three samples of each of 68,000 slices take 50 MB.
MOST_BYTES = 64 << 20


class PrometheusError(VgpuError):
    """Prometheus cannot be asked, or its answer cannot be read; the text gives the reason.

    Cure: open the URL of `--prometheus` with /api/v1/query?query=up added: it must answer JSON without a login.
    """


class PrometheusSeries(NamedTuple):
    """One series of an answer: its labels, and pairs of a time (seconds since 1970) and the value at that time."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, float]]


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option --prometheus."""
    parser.add_argument("--prometheus", metavar="URL", help="a Prometheus that scrapes the node agents")


class Prometheus:
    """One Prometheus, from any thread: each question opens a connection of its own."""

    def __init__(self, url: str) -> None:
        """Raises PrometheusError for a text that is no URL of HTTP."""
        problem = PrometheusError(f"--prometheus: {url!r} is no URL: write http://HOST:PORT")
        try:
            self._url = urlsplit(url)
            self._port = self._url.port
        except ValueError:  # of the port
            raise problem from None
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise problem

    def now(self, query: str) -> Sequence[PrometheusSeries]:
        """The last value of each series. Raises PrometheusError."""
        return self._series("query", {"query": query})

    def over_time(self, query: str, start: float, end: float, step: float) -> Sequence[PrometheusSeries]:
        """The values of each series from `start` to `end`, every `step` seconds. Raises PrometheusError."""
        words = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:.0f}"}
        return self._series("query_range", words)

    def _series(self, call: str, words: Mapping[str, str]) -> Sequence[PrometheusSeries]:
        """The series of an answer, each with its one value or with several."""
        text = self._text(f"{self._url.path.rstrip('/')}/api/v1/{call}?{urlencode(words)}")
        try:
            return [
                PrometheusSeries(
                    {str(name): str(label) for name, label in one["metric"].items()},
                    [(float(at), float(value)) for at, value in one.get("values") or [one["value"]]],
                )
                for one in json.loads(text)["data"]["result"]
            ]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise PrometheusError(f"Prometheus at {self._url.netloc} answers what is no result") from error

    def _text(self, target: str) -> bytes:
        """The body of the answer."""
        secure = self._url.scheme == "https"
        connection = (HTTPSConnection if secure else HTTPConnection)(
            self._url.hostname or "", self._port, timeout=TIMEOUT_SECONDS
        )
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            text = answer.read(MOST_BYTES)
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise PrometheusError(
                f"Prometheus at {self._url.netloc} does not answer ({why}): correct --prometheus, or forward a port to"
                " it: kubectl port-forward"
            ) from error
        finally:
            connection.close()
        if answer.status != HTTPStatus.OK:
            raise PrometheusError(f"Prometheus at {self._url.netloc} answers {answer.status}")
        return text
