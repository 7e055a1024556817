"""/metrics in both formats, made once for all who ask within a second, and the samples that are read from it."""

import threading
import time
import zlib
from collections.abc import Iterator

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from device_plugin.adapters.metrics import KEPT_SECONDS, KEPT_TIMES, LONGEST, Exposition, read_samples
from device_plugin.cluster.counts import Counts
from device_plugin.core.contract.metrics import MetricType, Reading
from device_plugin.core.http_values import HttpRequest
from tests.exposed import reading


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


TEXT, OPENMETRICS = "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0"


def scrape(app: Exposition, encoding: str = "", accept: str = "", content: str = TEXT) -> bytes:
    answer = app(HttpRequest("GET", "/metrics", headers={"accept-encoding": encoding, "accept": accept}))
    assert (answer.status, answer.content) == (200, f"{content}; charset=utf-8")
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


def test_a_client_that_accepts_openmetrics_gets_it() -> None:
    """Prometheus names both formats; its weights put OpenMetrics first."""
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
    counts = Counts()
    counts.placed(0.003)
    counts.bound("fenced")
    app = Exposition(lambda: [reading("vgpu_x", [(("n1",), 3.0)]), *counts.readings()])
    text = scrape(app, "gzip", accept, OPENMETRICS).decode()
    families = openmetrics.text_string_to_metric_families(text)
    found = {family.name: family for family in families}
    assert [(s.name, s.labels, s.value) for s in found["vgpu_x"].samples] == [("vgpu_x", {"node": "n1"}, 3.0)]
    assert found["vgpu_placement_seconds"].type == "histogram"
    assert [sample.name for sample in found["vgpu_binds"].samples] == ["vgpu_binds_total"]
    assert text.endswith("# EOF\n")
    assert "# EOF" not in scrape(app, accept="text/plain").decode()


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
    """Many samples, no label at all, and label values that would forge samples."""
    evil = 'a"} 1\nvgpu_forged 1\\'
    many = [((evil, str(number)), number * 17162043392.0) for number in range(1025)]
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
        "vgpu_idle_evictions",
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


EVIL = 'a"} 1\nvgpu_x{node="forged"} 1\\ \u2028é'


@pytest.mark.parametrize("content", [TEXT, OPENMETRICS])
def test_samples_are_read_from_what_is_written(content: str) -> None:
    """Label values that would forge samples, values of all sizes, and names that begin alike."""
    amounts = [((EVIL, "n1"), 0.25), (("b", "n1"), 17162043392.0), (("c", "n1"), 1e15 + 1)]
    app = Exposition(
        lambda: [
            reading("vgpu_x", amounts, labels=("pod", "node")),
            reading("vgpu_x_more", [(("n2",), 1.0)]),
            reading("vgpu_y_total", [(("n3",), 2.0)], kind=MetricType.COUNTER),
        ]
    )
    text = scrape(app, accept=content, content=content).decode()
    read = [((labels["pod"], labels["node"]), value) for labels, value in read_samples(text, "vgpu_x", 9)]
    assert read == amounts
    assert list(read_samples(text, "vgpu_y_total", 9)) == [({"node": "n3"}, 2.0)]
    assert len(list(read_samples(text, "vgpu_x", 2))) == 2


@pytest.mark.parametrize(
    "line",
    [
        'vgpu_x{a="1"} 1e',
        'vgpu_x{a="1",a="2"} 1',
        'vgpu_x{a="1} 1',
        "vgpu_x{a} 1",
        'vgpu_x{a="1"} ' + "9" * 999,
    ],
)
def test_a_malformed_sample_is_a_valueerror(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library says what is wrong with a line
        list(read_samples(line, "vgpu_x", 9))


def test_a_line_that_is_longer_than_any_of_ours_is_passed_over() -> None:
    long = 'vgpu_x{a="' + "\\" * LONGEST + '"} 1\n'
    assert list(read_samples(long + 'vgpu_x{a="b"} 1\n', "vgpu_x", 9)) == [({"a": "b"}, 1.0)]


def test_only_the_lines_of_the_metric_are_parsed() -> None:
    """A text of 4 MiB without a sample of the metric took seconds to parse as a whole."""
    text = 'vgpu_y{card="GPU-1"} 1.0\n' * (1 << 17)
    begin = time.process_time()
    assert list(read_samples(text, "vgpu_x", 9)) == []
    assert time.process_time() - begin < 0.5
