"""Asks the Prometheus that --prometheus names for values, now or over time.

The API is https://prometheus.io/docs/prometheus/latest/querying/api.
"""

import argparse
import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from device_plugin.adapters.http.client import LOST, Connection, lost_text
from device_plugin.core.errors import VgpuError

TIMEOUT_SECONDS = 10.0
# Bytes of an answer that are read: one sample of each of 68,000 slices takes about 20 MB.
MOST_BYTES = 64 << 20
# The latest time of a value, in seconds since 1970: the end of the year 9999.
MOST_TIME = 253_402_300_799.0
_PORTS = {"http": 80, "https": 443}
# Characters of a path that stay as they are.
_SAFE = "/%:@!$&'()*+,;=~"


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
        """`timeout` is in seconds, for an answer. Raises PrometheusError if `url` is not a URL of HTTP or HTTPS."""
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

    def now(self, query: str, at: float | None = None) -> Sequence[PrometheusSeries]:
        """Returns each series of the query with its value at the time `at`, in seconds since 1970; by default, now.

        Raises PrometheusError.
        """
        return self._series("query", {"query": query} | ({} if at is None else {"time": f"{at:.0f}"}))

    def over_time(self, query: str, start: float, end: float, step: float) -> Sequence[PrometheusSeries]:
        """Returns the values of each series from `start` to `end`, every `step` seconds. Raises PrometheusError."""
        words = {"query": query, "start": f"{start:.0f}", "end": f"{end:.0f}", "step": f"{step:.0f}"}
        return self._series("query_range", words)

    def _series(self, call: str, words: Mapping[str, str]) -> Sequence[PrometheusSeries]:
        """Sends the query `words` to the API's path `call`; returns the series of the answer.

        Each series has one value or several.
        """
        text = self._text(f"{quote(self._url.path.rstrip('/'), _SAFE)}/api/v1/{call}?{urlencode(words)}")
        try:
            return [
                PrometheusSeries(
                    {str(name): str(label) for name, label in one["metric"].items()},
                    [_pair(at, value) for at, value in one.get("values") or [one["value"]]],
                )
                for one in json.loads(text)["data"]["result"]
            ]
        # JSON that is nested too deeply raises RecursionError.
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise PrometheusError(f"Prometheus at {self._host} sends an answer that is no result") from error

    def _text(self, target: str) -> bytes:
        """Sends a GET request, and returns the body of the answer. Raises PrometheusError."""
        deadline, body = time.monotonic() + self._timeout, bytearray()
        try:
            with closing(Connection(self._connected(deadline))) as connection:
                connection.ask(self._request(target), self._timeout, deadline)
                # The end of the connection may be that of the body; what is read decides.
                with suppress(ConnectionResetError):
                    for part in connection.body():
                        body += part
                        if len(body) > MOST_BYTES:
                            break
        except (*LOST, ValueError) as error:
            why = lost_text(error) if isinstance(error, LOST) else "its host is no name of a host"
            raise PrometheusError(
                f"Prometheus at {self._host} cannot be asked ({why}): correct --prometheus, or forward a port to it:"
                " kubectl port-forward"
            ) from error
        if connection.status != HTTPStatus.OK:
            raise PrometheusError(f"Prometheus at {self._host} answers {connection.status}")
        if len(body) > MOST_BYTES:
            raise PrometheusError(
                f"Prometheus at {self._host} sends too long an answer: over {MOST_BYTES >> 20} MiB"
            )
        return bytes(body)

    def _request(self, target: str) -> bytes:
        lines = [f"GET {target} HTTP/1.1", f"Host: {self._host}", "Connection: close"]
        lines += [f"{name}: {text}" for name, text in self._headers.items()]
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()

    def _connected(self, deadline: float) -> socket.socket:
        """Returns a socket connected to Prometheus, with TLS for HTTPS. Raises OSError, ValueError."""
        host = self._url.hostname or ""
        connected = socket.create_connection((host, self._port or _PORTS[self._url.scheme]), self._timeout)
        if self._url.scheme == "http":
            return connected
        secured = ssl.create_default_context().wrap_socket(
            connected, server_hostname=host, do_handshake_on_connect=False
        )
        # A server that sends its handshake byte by byte keeps within every timeout of the socket.
        ending = threading.Timer(max(0.0, deadline - time.monotonic()), _interrupt, (secured,))
        ending.start()
        try:
            secured.do_handshake()
        except BaseException as error:
            secured.close()
            if time.monotonic() >= deadline:
                raise TimeoutError("no whole answer in time") from error
            raise
        finally:
            ending.cancel()
        return secured


def _interrupt(connected: socket.socket) -> None:
    """End a connection while another thread reads from it."""
    # Not the method of a TLS socket, which is for the thread that reads.
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _pair(at: object, value: object) -> tuple[float, float]:
    """Returns a time and the value at that time. Raises TypeError, ValueError."""
    time_of, number = float(at), float(value)  # type: ignore[arg-type]
    if not 0 <= time_of <= MOST_TIME:
        raise ValueError("no time")
    return time_of, number
