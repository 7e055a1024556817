"""Writes readings for /metrics in the text formats of Prometheus and OpenMetrics, and reads samples from such a text.

Anybody who reaches the port may scrape often, so a text is cached for a second, or longer if it took long to make.
"""

import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from prometheus_client import Metric as Family
from prometheus_client import exposition as prometheus
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from device_plugin.core.contract.metrics import MetricType, Reading
from device_plugin.core.http_values import HttpAnswer, HttpRequest

KEPT_SECONDS = 1.0
# A text is cached KEPT_TIMES as long as it took to make, so that making texts takes at most 1/5 of the time.
KEPT_TIMES = 4.0
GZIP = 16 + zlib.MAX_WBITS
# Characters of the longest sample that is read. With the longest names that Kubernetes allows, ours have 900.
LONGEST = 2000
TEXT, OPENMETRICS = prometheus.CONTENT_TYPE_PLAIN_0_0_4, openmetrics.CONTENT_TYPE_LATEST


class Exposition:
    """The application of /metrics: answers with the samples of `read`, in OpenMetrics for a client that accepts it.

    A cached text is dropped when `leads` returns another value than before: a replica that is no longer the leader must
    not export the leader's metrics.
    """

    def __init__(
        self, read: Callable[[], Iterable[Reading]],
        clock: Callable[[], float] = time.monotonic, leads: Callable[[], object] = bool,
    ) -> None:  # fmt: skip
        self._texts = {
            TEXT: _KeptText(lambda: prometheus.generate_latest(_Families(read)), clock, leads),
            OPENMETRICS: _KeptText(lambda: openmetrics.generate_latest(_Families(read)), clock, leads),
        }

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer one scrape with the cached or a new text, compressed if the client accepts gzip."""
        content = OPENMETRICS if "application/openmetrics-text" in request.headers.get("accept", "") else TEXT
        text, headers = self._texts[content](), {"Vary": "Accept, Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return HttpAnswer([text.plain], content, headers=headers)
        return HttpAnswer([text.packed()], content, headers={**headers, "Content-Encoding": "gzip"})


class _KeptText:
    """Caches one text for scrapes: a call returns the cached text, or a new one if the cached text is too old.

    While one thread makes a new text, other threads get the old text. They wait for the new one if there is no old
    text, or if `leads` returns another value than for the old text.
    """

    def __init__(
        self, make: Callable[[], bytes], clock: Callable[[], float], leads: Callable[[], object]
    ) -> None:
        self._make = make
        self._clock = clock
        self._leads = leads
        self._making = threading.Lock()
        self._kept: _Text | None = None
        self._until = 0.0

    def __call__(self) -> "_Text":
        kept = self._kept
        if kept is None or kept.led != self._leads():
            self._making.acquire()
        elif self._clock() < self._until or not self._making.acquire(blocking=False):
            return kept
        try:
            kept, leads = self._kept, self._leads()
            if kept is None or kept.led != leads or self._clock() >= self._until:
                started = self._clock()
                kept = self._kept = _Text(self._make(), led=leads)
                ended = self._clock()
                self._until = ended + max(KEPT_SECONDS, KEPT_TIMES * (ended - started))
            return kept
        finally:
            self._making.release()


class _Text:
    """A text for scrapes, and its gzip form once a client asks for that.

    `led` is the value that the function `leads` returned when the text was made. Once `leads` returns another value,
    the text is outdated.
    """

    def __init__(self, plain: bytes, *, led: object) -> None:
        self.plain = plain
        self.led = led
        self._lock = threading.Lock()
        self._packed: bytes | None = None

    def packed(self) -> bytes:
        """Returns the text in gzip form, which is made once and kept."""
        with self._lock:
            if self._packed is None:
                packer = zlib.compressobj(1, wbits=GZIP)
                self._packed = packer.compress(self.plain) + packer.flush()
            return self._packed


class _Families(Collector):
    """Converts readings to the metric families of the client library, without metrics that have no sample."""

    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Family]:
        return (family for family in map(_family, self._read()) if family.samples)


def _family(reading: Reading) -> Family:
    """Returns a reading (a metric with its samples) as the client library's metric family.

    The library adds `_total` to the name of a counter.
    """
    metric, value = reading.metric, 0.0
    histogram = metric.type is MetricType.HISTOGRAM
    labels = (*metric.labels, "le") if histogram else metric.labels
    name = f"{metric.name}_bucket" if histogram else metric.name
    counter = metric.type is MetricType.COUNTER
    family = Family(
        metric.name.removesuffix("_total") if counter else metric.name, metric.help, metric.type.value
    )
    for values, value in reading.samples:
        family.add_sample(name, dict(zip(labels, values, strict=True)), value)
    if histogram:
        family.add_sample(f"{metric.name}_count", {}, value)
        family.add_sample(f"{metric.name}_sum", {}, reading.total)
    return family


def read_samples(text: str, name: str, most: int) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yields labels and value of each sample of one metric in a text, at most `most`.

    Only the lines of this metric are parsed, because a line takes 25 µs: an agent of 8 cards and 32 slices exports 430
    lines, of which 24 are needed, and up to 50 agents are read in a second. Raises ValueError for a malformed sample.
    """
    lines = "\n".join(islice(_lines(f"\n{text}", f"\n{name}{{"), most))
    try:
        for family in text_string_to_metric_families(lines):
            yield from ((sample.labels, float(sample.value)) for sample in family.samples)
    except (ArithmeticError, LookupError) as error:
        raise ValueError(f"a line of {name} is no sample") from error


def _lines(text: str, head: str) -> Iterator[str]:
    """Yields the lines of a metric; `head` is a line feed and the metric's name.

    Lines of more than LONGEST characters are left out.
    """
    at = text.find(head)
    while at >= 0:
        start, end = at + 1, text.find("\n", at + 1)
        end = len(text) if end < 0 else end
        if end - start <= LONGEST:
            yield text[start:end]
        at = text.find(head, end)
