"""What Prometheus reads: metrics in its text format, made once for all who ask within a second."""

import threading
import zlib
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from device_plugin.adapters.exposition import KEPT_SECONDS, KEPT_TIMES, PIECE, Exposition
from device_plugin.cluster.counts import Counts
from device_plugin.core.contract.metrics import MetricType, Reading
from device_plugin.core.http_values import HttpRequest
from tests.exposed import reading


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def scrape(app: Exposition, encoding: str = "") -> bytes:
    answer = app(HttpRequest("GET", "/metrics", headers={"accept-encoding": encoding}))
    assert (answer.status, answer.content) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert not isinstance(answer.body, str)
    text = b"".join(answer.body)
    return zlib.decompress(text, 31) if answer.headers.get("Content-Encoding") == "gzip" else text


def lines(app: Exposition) -> list[str]:
    return scrape(app).decode().splitlines()


def test_gauges_are_read_at_the_moment_of_the_question_and_vanish_with_their_source() -> None:
    clock, now = _Clock(), [reading("vgpu_x", [(("n1",), 3.0)])]
    app = Exposition(lambda: now, clock=clock)
    assert lines(app) == ["# HELP vgpu_x What it says.", "# TYPE vgpu_x gauge", 'vgpu_x{node="n1"} 3.0']
    now[0] = reading("vgpu_x", [(("n2",), 4.0)])
    clock.now += KEPT_SECONDS
    assert lines(app)[2:] == ['vgpu_x{node="n2"} 4.0']
    now[0] = reading("vgpu_x", [])
    clock.now += KEPT_SECONDS
    assert lines(app) == [], "a gauge without samples must be absent, not zero"


def test_whoever_asks_again_and_again_gets_the_same_text() -> None:
    clock, reads = _Clock(), 0

    def slow() -> list[Reading]:
        nonlocal reads
        reads += 1
        clock.now += 5.0
        return [reading("vgpu_x", [(("n1",), float(reads))])]

    app = Exposition(slow, clock=clock)
    first = scrape(app)
    clock.now += KEPT_TIMES * 5.0 - 0.1
    assert [scrape(app), scrape(app, "gzip, deflate")] == [first, first]
    assert reads == 1
    clock.now += 0.2
    assert scrape(app) != first
    assert reads == 2


def test_a_text_of_a_leader_is_kept_no_longer_than_it_leads() -> None:
    """The new leader exports the same facts: nothing may be exported by both."""
    clock, leads = _Clock(), True
    app = Exposition(
        lambda: [reading("vgpu_x", [(("n1",), 1.0)])] if leads else [], clock=clock, leads=lambda: leads
    )
    assert len(lines(app)) == 3
    leads = False
    assert lines(app) == []
    leads = True
    assert len(lines(app)) == 3


def test_what_only_grows_is_a_counter() -> None:
    app = Exposition(lambda: [reading("vgpu_x_total", [(("n1",), 2.0)], kind=MetricType.COUNTER)])
    (family,) = text_string_to_metric_families(scrape(app).decode())
    assert (family.type, [(sample.name, sample.value) for sample in family.samples]) == (
        "counter", [("vgpu_x_total", 2.0)],
    )  # fmt: skip


def test_while_a_text_is_made_nobody_else_makes_one() -> None:
    clock, begun, go_on, reads = _Clock(), threading.Event(), threading.Event(), 0

    def read() -> list[Reading]:
        nonlocal reads
        reads += 1
        if reads > 1:
            begun.set()
            assert go_on.wait(60.0)
        return [reading("vgpu_x", [(("n1",), float(reads))])]

    app = Exposition(read, clock=clock)
    first = scrape(app)
    clock.now += KEPT_SECONDS
    other = threading.Thread(target=scrape, args=(app,))
    other.start()
    assert begun.wait(60.0)
    assert scrape(app) == first
    go_on.set()
    other.join(60.0)
    assert (scrape(app) != first, reads) == (True, 2)


def test_a_text_that_could_not_be_made_is_made_next_time() -> None:
    answers: Iterator[Exception | list[Reading]] = iter(
        [RuntimeError("broken"), [reading("vgpu_x", [(("n1",), 1.0)])]]
    )

    def read() -> list[Reading]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    app = Exposition(read)
    try:
        scrape(app)
    except RuntimeError:
        assert lines(app)[2:] == ['vgpu_x{node="n1"} 1.0']
    else:
        raise AssertionError("nothing was said of it")


def test_nothing_is_read_before_it_is_asked_for() -> None:
    def read() -> list[Reading]:
        raise AssertionError("read too early")

    Exposition(read)


def test_prometheus_reads_it_whatever_the_labels_hold() -> None:
    """Many samples, in more than one piece, no label at all, and label values that would forge samples."""
    evil = 'a"} 1\nvgpu_forged 1\\'
    many = [((evil, str(number)), number * 17162043392.0) for number in range(PIECE + 1)]
    counts = Counts()
    counts.placed(0.003)
    counts.bound("fenced")
    app = Exposition(
        lambda: [
            reading("vgpu_many", many, labels=("node", "card")),
            reading("vgpu_one", [((), 1.0)], labels=()),
            *counts.readings(),
        ],
    )
    found = {family.name: family for family in text_string_to_metric_families(scrape(app).decode())}
    assert set(found) == {
        "vgpu_many",
        "vgpu_one",
        "vgpu_placement_seconds",
        "vgpu_binds",
        "vgpu_pod_bind_wait_seconds",
    }
    assert [(sample.labels, sample.value) for sample in found["vgpu_binds"].samples] == [
        ({"outcome": "fenced"}, 1.0)
    ]
    timed = {(s.name, s.labels.get("le")): s.value for s in found["vgpu_placement_seconds"].samples}
    assert timed["vgpu_placement_seconds_bucket", "0.002"] == 0.0
    assert (
        timed["vgpu_placement_seconds_bucket", "0.005"]
        == timed["vgpu_placement_seconds_bucket", "+Inf"]
        == 1.0
    )
    assert (timed["vgpu_placement_seconds_sum", None], timed["vgpu_placement_seconds_count", None]) == (
        0.003,
        1.0,
    )
    assert [
        ((sample.labels["node"], sample.labels["card"]), sample.value)
        for sample in found["vgpu_many"].samples
    ] == many
    assert [(sample.labels, sample.value) for sample in found["vgpu_one"].samples] == [({}, 1.0)]
