"""The replay protocol: work, speed and arrivals of a trace's jobs."""

from math import exp
from pathlib import Path
from random import Random

import pytest

from hack.bench.jobs.nodes import replicas_on
from hack.bench.jobs.trace import EXPONENT, TraceJob, in_replicas, read
from hack.bench.report import BenchError


def line(kind: str, steps: int, arrival: float, replicas: int) -> str:
    return f"{kind}\tpython3 main.py\t-n\t1\t{steps}\t{arrival}\t{replicas}\n"


def test_work_widths_arrivals_and_declared_durations(tmp_path: Path) -> None:
    file = tmp_path / "x.trace"
    file.write_text(line("A3C", 720, 0, 1) + line("ResNet-50 (batch size 128)", 2500, 1100, 16))
    first, second = read(file, 8, 5.5)
    assert (first.asked, first.work, first.speed(1), first.speed(9)) == (1, 100.0, 1.0, 2**0.9)
    assert (second.asked, second.work, second.arrival) == (8, 1000.0, 200.0)
    assert second.speed(4) == 4**0.9
    errors = Random(7)
    assert first.declared == pytest.approx(100.0 * exp(errors.gauss(0, 0.7)))
    assert second.declared == pytest.approx(1000 / 8**0.9 * exp(errors.gauss(0, 0.7)))


def test_with_a_models_own_speed_the_duration_at_the_width_asked_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "x.trace"
    file.write_text(line("ResNet-50 (batch size 16)", 11400, 0, 4))
    (job,) = read(file, 8, per_model=True)
    assert job.exponent == 0.43
    assert job.work / job.speed(4) == pytest.approx(1000 / 4**0.9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A3C\t1\n", "2 columns, not 7"),
        (line("GPT (batch size 1)", 1, 0, 1), "'GPT'"),
        (line("A3C (batch size many)", 1, 0, 1), "invalid literal"),
        ("", "has no jobs"),
    ],
)
def test_what_is_no_trace_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.trace"
    file.write_text(text)
    with pytest.raises(BenchError, match=said):
        read(file, 8)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="No such file"):
        read(tmp_path / "none", 8)


def test_a_job_of_several_cards_has_fewer_replicas_and_takes_as_long() -> None:
    jobs = [TraceJob(f"{n}", 0.0, n, 100.0 * n**EXPONENT, EXPONENT, 100.0) for n in (1, 2, 8, 9)]
    found = in_replicas(jobs, {4: 1.0}, lambda cards: 16 // cards)
    assert [(job.asked, job.cards) for job in found] == [(1, 1), (1, 2), (2, 4), (2, 4)]
    assert [job.work / job.speed(job.asked) for job in found] == pytest.approx([100.0] * 4)
    assert in_replicas(jobs, {1: 1.0}, lambda cards: 16 // cards) == jobs
    assert in_replicas(jobs[3:], {2: 1.0}, lambda _: 3)[0].asked == 3


def test_replicas_that_fit_on_nodes_of_several_cards() -> None:
    assert [replicas_on(12, 8, of) for of in (1, 2, 3, 4, 8)] == [12, 6, 3, 3, 1]
    assert replicas_on(12, 12, 8) == 1
