"""Asks the Prometheus that --prometheus names for values, now or over time.

The API is https://prometheus.io/docs/prometheus/latest/querying/api.
"""

import argparse
import base64
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from device_plugin.adapters.http.client import lost_text
from device_plugin.core.errors import VgpuError

TIMEOUT_SECONDS = 10.0
# Bytes of an answer that are read: one sample of each of 68,000 slices takes about 20 MB.
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
    """A client of one Prometheus. Any thread may use it: each query has a connection of its own."""

    def __init__(self, url: str, timeout: float = TIMEOUT_SECONDS) -> None:
        """`timeout` is in seconds, for each answer. Raises PrometheusError if `url` is not a URL of HTTP or HTTPS."""
        problem = PrometheusError("--prometheus: this is no URL: write http://HOST:PORT")
        try:
            self._url = urlsplit(url)
            self._port = self._url.port
        except ValueError:  # the port is no number
            raise problem from None
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise problem
        host = f"[{self._url.hostname}]" if ":" in self._url.hostname else self._url.hostname
        self._host = f"{host}:{self._port}" if self._port else host
        """The address for errors, without the password that the URL may have."""
        self._headers: dict[str, str] = {}
        self._timeout = timeout
        if self._url.username is not None:
            user = f"{unquote(self._url.username)}:{unquote(self._url.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def now(self, query: str) -> Sequence[PrometheusSeries]:
        """Returns the last value of each series. Raises PrometheusError."""
        return self._series("query", {"query": query})

    def over_time(self, query: str, start: float, end: float, step: float) -> Sequence[PrometheusSeries]:
        """Returns the values of each series from `start` to `end`, every `step` seconds. Raises PrometheusError."""
        words = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:.0f}"}
        return self._series("query_range", words)

    def _series(self, call: str, words: Mapping[str, str]) -> Sequence[PrometheusSeries]:
        """Returns the series of an answer, each with one value or several."""
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
            raise PrometheusError(f"Prometheus at {self._host} sends an answer that is no result") from error

    def _text(self, target: str) -> bytes:
        """Returns the body of the answer to a GET. Raises PrometheusError."""
        secure = self._url.scheme == "https"
        connection = (HTTPSConnection if secure else HTTPConnection)(
            self._url.hostname or "", self._port, timeout=self._timeout
        )
        try:
            connection.request("GET", target, headers=self._headers)
            answer = connection.getresponse()
            text = answer.read(MOST_BYTES + 1)
        except (OSError, HTTPException, ValueError) as error:
            why = lost_text(error) if isinstance(error, OSError) else "it does not answer in HTTP"
            raise PrometheusError(
                f"Prometheus at {self._host} cannot be asked ({why}): correct --prometheus, or forward a port to it:"
                " kubectl port-forward"
            ) from error
        finally:
            connection.close()
        if answer.status != HTTPStatus.OK:
            raise PrometheusError(f"Prometheus at {self._host} answers {answer.status}")
        if len(text) > MOST_BYTES:
            raise PrometheusError(
                f"Prometheus at {self._host} sends too long an answer: over {MOST_BYTES >> 20} MiB"
            )
        return text
