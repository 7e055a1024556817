"""/metrics: samples as they are now, in Prometheus' text format, version 0.0.4.

A large cluster has hundreds of thousands of samples, and whoever reaches the port may ask for them again and again. So
one text serves all who ask within a second, and for longer where it took long to make; and it is made line by line,
because all objects at once would be a long turn for the garbage collector, with all threads waiting for it.
"""

import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from device_plugin.core.contract.metrics import MetricType, Reading
from device_plugin.core.http_values import HttpAnswer, HttpRequest

CONTENT = "text/plain; version=0.0.4; charset=utf-8"
KEPT_SECONDS = 1.0
# A text is cached KEPT_TIMES as long as it took to make, so that making texts takes at most 1/5 of the time.
KEPT_TIMES = 4.0
# Lines that are joined into one piece, about 100 KiB.
PIECE = 1024
GZIP = 16 + zlib.MAX_WBITS


class Exposition:
    """The application of /metrics: the samples of `read`.

    A text is kept only while `leads` returns what it returned before the text was made: a replica that has lost the
    leadership must not go on exporting what its successor exports.
    """

    def __init__(
        self, read: Callable[[], Iterable[Reading]],
        clock: Callable[[], float] = time.monotonic, leads: Callable[[], object] = bool,
    ) -> None:  # fmt: skip
        self._read = read
        self._clock = clock
        self._leads = leads
        self._making = threading.Lock()
        self._kept: _Text | None = None
        self._until = 0.0

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer one scrape with the cached or newly made text, packed if the client accepts gzip."""
        text = self._text()
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return HttpAnswer(text.pieces, CONTENT, headers=headers)
        return HttpAnswer([text.packed()], CONTENT, headers={**headers, "Content-Encoding": "gzip"})

    def _text(self) -> "_Text":
        """The text that is kept, or a new one; while one is made, others get the one of before."""
        kept = self._kept
        if kept is None or kept.led != self._leads():
            self._making.acquire()
        elif self._clock() < self._until or not self._making.acquire(blocking=False):
            return kept
        try:
            kept, leads = self._kept, self._leads()
            if kept is None or kept.led != leads or self._clock() >= self._until:
                started = self._clock()
                kept = self._kept = _Text(list(self._pieces()), led=leads)
                ended = self._clock()
                self._until = ended + max(KEPT_SECONDS, KEPT_TIMES * (ended - started))
            return kept
        finally:
            self._making.release()

    def _pieces(self) -> Iterator[bytes]:
        for reading in self._read():
            lines = _lines(reading)
            while piece := "".join(islice(lines, PIECE)):
                yield piece.encode()


class _Text:
    """One scrape's text, and its gzip form once a client asks for it.

    `led`: whether this replica led when it was made.
    """

    def __init__(self, pieces: Sequence[bytes], *, led: object) -> None:
        self.pieces = pieces
        self.led = led
        self._lock = threading.Lock()
        self._packed: bytes | None = None

    def packed(self) -> bytes:
        """Compressed as a gzip file."""
        with self._lock:
            if self._packed is None:
                packer = zlib.compressobj(1, wbits=GZIP)
                self._packed = b"".join([*map(packer.compress, self.pieces), packer.flush()])
            return self._packed


def _lines(reading: Reading) -> Iterator[str]:
    """The lines of one metric, HELP and TYPE first; none if it has no samples."""
    metric = reading.metric
    head = f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type.value}\n"
    histogram = metric.type is MetricType.HISTOGRAM
    name, names = (
        (f"{metric.name}_bucket", (*metric.labels, "le")) if histogram else (metric.name, metric.labels)
    )
    value = 0.0
    for values, value in reading.samples:
        pairs = zip(names, values, strict=True)
        labels = ",".join([f'{label}="{_escaped(text)}"' for label, text in pairs])
        where = f"{{{labels}}}" if labels else ""
        yield f"{head}{name}{where} {float(value)!r}\n"
        head = ""
    if histogram:
        yield f"{metric.name}_sum {reading.total!r}\n{metric.name}_count {value!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
