"""Traces made by hand: cases in which a bad policy starves jobs, leaves cards idle, or waits without need."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from device_plugin.core.jobs.rules import HOUR
from hack.bench.jobs.trace import EXPONENT, TraceJob

MINUTE = 60.0
SEED = 3


@dataclass(frozen=True, slots=True)
class Handmade:
    """The jobs of a case, and its number of cards; `liars` is true if some jobs declare a wrong duration."""

    jobs: Sequence[TraceJob]
    cards: int
    liars: bool = False


def handmade() -> Mapping[str, Handmade]:
    """The cases by name."""
    return dict(_cases())


def _cases() -> Iterator[tuple[str, Handmade]]:
    for hours in (19.5, 3.0):
        yield f"livelock-{hours:g}h", _livelock(hours * HOUR)
    for percent in (50, 80, 90, 100):
        yield f"big-behind-stream-{percent}", _big_behind_stream(percent / 100)
    for percent in (40, 70):
        yield f"big-among-random-{percent}", _big_among_random(percent / 100)
    for percent in (60, 90):
        yield f"wide-among-small-{percent}", _wide_among_small(percent / 100)
    yield "many-wide", _many_wide()
    yield "huge", _huge()
    yield "liars", _liars(elastic=False)
    yield "liars-elastic", _liars(elastic=True)
    for percent in (70, 110):
        yield f"mixed-{percent}", _mixed(percent / 100)
    yield "burst-elastic", _burst(rigid=False)
    yield "burst-rigid", _burst(rigid=True)


def _livelock(seconds: float) -> Handmade:
    """A job of all cards, and a small job every 20 minutes; once stopped for a small job, the large one may starve."""
    small = _stream(20 * MINUTE, 20 * MINUTE, 72 * HOUR, 30 * MINUTE)
    return Handmade([_job("big", 0.0, 8, seconds), *small], 8)


def _big_behind_stream(load: float) -> Handmade:
    """A stream of small jobs that uses the share `load` of the cards, and a job of all cards that comes later."""
    stream = _stream(0.0, 30 * MINUTE / (8 * load), 72 * HOUR, 30 * MINUTE)
    return Handmade([*stream, _job("big", HOUR, 8, 3 * HOUR)], 8)


def _big_among_random(load: float) -> Handmade:
    """Small jobs of random lengths at random times, and a job of all cards every 16 hours."""
    small = _random(Random(SEED), 16, load, 96 * HOUR, (1, 1, 2), HOUR)
    return Handmade([*small, *(_job(f"big-{n}", n * 16 * HOUR + HOUR, 16, 2 * HOUR) for n in range(5))], 16)


def _wide_among_small(load: float) -> Handmade:
    """Small jobs of random lengths, and jobs of three quarters of the cards, like a group of Jobs that run together."""
    small = _random(Random(SEED), 16, load / 2, 96 * HOUR, (1, 1, 2), HOUR)
    every = 12 * 2 * HOUR / (16 * load / 2)
    wide = [_job(f"wide-{n:02}", n * every + HOUR, 12, 2 * HOUR) for n in range(int(96 * HOUR / every))]
    return Handmade([*small, *wide], 16)


def _many_wide() -> Handmade:
    """Ten jobs of all cards that come together, while small jobs keep coming."""
    small = _stream(0.0, 10 * MINUTE, 72 * HOUR, 20 * MINUTE)
    return Handmade([*small, *(_job(f"wide-{n}", HOUR + n, 16, 2 * HOUR) for n in range(10))], 16)


def _huge() -> Handmade:
    """One job of all cards among jobs of many widths and lengths."""
    others = _random(Random(SEED), 64, 0.7, 72 * HOUR, (1, 2, 4, 8, 16), 2 * HOUR)
    return Handmade([*others, _job("huge", 4 * HOUR, 64, 6 * HOUR)], 64)


def _liars(*, elastic: bool) -> Handmade:
    """Half of the jobs declare a tenth of their real duration; wide jobs wait for their ends."""
    rng = Random(SEED)
    jobs = _random(rng, 16, 0.6, 72 * HOUR, (1, 2, 4), HOUR)
    jobs = [replace(job, declared=job.declared / 10) if rng.random() < 0.5 else job for job in jobs]
    wide = [_job(f"wide-{n}", (1 + 24 * n) * HOUR, 12, 2 * HOUR) for n in range(3)]
    return Handmade([replace(job, rigid=not elastic) for job in (*jobs, *wide)], 16, liars=True)


def _mixed(load: float) -> Handmade:
    """Elastic and rigid jobs of many widths and lengths."""
    rng = Random(SEED)
    jobs = _random(rng, 32, load, 72 * HOUR, (1, 2, 4, 8, 16, 32), HOUR)
    return Handmade([replace(job, rigid=rng.random() < 0.5) for job in jobs], 32)


def _burst(*, rigid: bool) -> Handmade:
    """64 small jobs that come together, while a large job has all 128 cards."""
    small = [_job(f"small-{n:02}", 2 * HOUR, 1, 5 * MINUTE) for n in range(64)]
    return Handmade([replace(_job("large", 0.0, 128, 12 * HOUR), rigid=rigid), *small], 128)


def _stream(begin: float, apart: float, end: float, seconds: float) -> Sequence[TraceJob]:
    """Jobs of one card that come every `apart` seconds from `begin` to `end`."""
    count = int((end - begin) / apart)
    return [_job(f"small-{n:04}", begin + n * apart, 1, seconds) for n in range(count)]


def _random(
    rng: Random, cards: int, load: float, span: float, widths: Sequence[int], median: float
) -> Sequence[TraceJob]:
    """Rigid jobs that would use the share `load` of the cards; their lengths are lognormal, a day at most."""
    jobs, used = list[TraceJob](), 0.0
    while used < load * cards * span:
        width, seconds = rng.choice(widths), min(24 * HOUR, median * rng.lognormvariate(0, 1))
        jobs.append(_job(f"random-{len(jobs):04}", rng.uniform(0, span), width, seconds))
        used += width * seconds
    return sorted(jobs, key=lambda job: job.arrival)


def _job(name: str, arrival: float, asked: int, seconds: float) -> TraceJob:
    return TraceJob(name, arrival, asked, seconds * asked**EXPONENT, EXPONENT, seconds, rigid=True)
