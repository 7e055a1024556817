"""Training jobs of a trace in gavel's format; their work and widths follow gavel's replay protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from random import Random

from hack.bench.report import BenchError

# Steps per second of one replica, by the model and then the batch size of the job type; 0 stands for no batch size.
RATES: dict[str, dict[int, float]] = {
    "A3C": {0: 7.2},
    "CycleGAN": {0: 4.4},
    "LM": {5: 109, 10: 82, 20: 65, 40: 45, 80: 28},
    "Recommendation": {512: 23, 1024: 13, 2048: 7.5, 4096: 3.9, 8192: 2.8},
    "ResNet-18": {16: 32, 32: 30, 64: 24, 128: 18, 256: 10.3},
    "ResNet-50": {16: 11.4, 32: 7.8, 64: 4.4, 128: 2.5},
    "Transformer": {16: 11.1, 32: 10.6, 64: 8.6, 128: 5.5, 256: 1.6},
}
EXPONENT = 0.9
# The speed of a job is its width to the power of this exponent, by model and batch size (--per-model).
EXPONENTS: dict[str, dict[int, float]] = {
    "A3C": {0: 0.9},
    "CycleGAN": {0: 0.9},
    "LM": {5: 0.89, 10: 0.95, 20: 0.95, 40: 0.95, 80: 0.95},
    "Recommendation": {512: 0.9, 1024: 0.9, 2048: 0.9, 4096: 0.9, 8192: 0.9},
    "ResNet-18": {16: 0.95, 32: 0.95, 64: 0.95, 128: 0.95, 256: 0.95},
    "ResNet-50": {16: 0.43, 32: 0.54, 64: 0.66, 128: 0.68},
    "Transformer": {16: 0.90, 32: 0.86, 64: 0.84, 128: 0.83, 256: 0.87},
}
# The speed does not grow beyond this many times the width asked for.
FLAT = 2
# Declared durations are wrong by a factor of exp(N(0, SIGMA)), drawn in the order of the file.
SIGMA, SEED = 0.7, 7
COLUMNS = 7


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: `work` is in seconds of one replica, `declared` in seconds with the asked number of replicas.

    Each replica takes `cards` cards of one node. A `rigid` job runs at the width asked for only.
    """

    name: str
    arrival: float
    asked: int
    work: float
    exponent: float
    declared: float
    cards: int = 1
    rigid: bool = False

    def speed(self, width: int) -> float:
        """The work done per second at this width, in seconds of one replica."""
        return float(min(width, FLAT * self.asked) ** self.exponent)


def read(file: Path, cards: int, squeeze: float = 1.0, *, per_model: bool = False) -> Sequence[TraceJob]:
    """The jobs of a trace for a cluster of `cards`, arriving `squeeze` times as fast. Raises BenchError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        errors = Random(SEED)
        jobs = [
            _job(f"{number:04}", line, cards, squeeze, errors.gauss(0, SIGMA), per_model=per_model)
            for number, line in enumerate(lines)
        ]
    except OSError as error:
        raise BenchError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        raise BenchError(f"{file}: not a trace of jobs ({error})") from None
    if not jobs:
        raise BenchError(f"{file} has no jobs")
    return jobs


def in_replicas(
    jobs: Sequence[TraceJob], shares: Mapping[int, float], most: Callable[[int], int]
) -> Sequence[TraceJob]:
    """The jobs with several cards per replica: a job of n cards gets n // c replicas of c cards.

    The number c is drawn by the weights `shares`, and is at most n. A job asks for at most `most(c)` replicas. At the
    width it asks for, it takes as long as without this change.
    """
    rng = Random(SEED)
    return [
        _in_replicas(job, drawn, most)
        for job, drawn in zip(jobs, rng.choices([*shares], [*shares.values()], k=len(jobs)), strict=True)
    ]


def _in_replicas(job: TraceJob, drawn: int, most: Callable[[int], int]) -> TraceJob:
    cards = min(drawn, job.asked)
    asked = min(job.asked // cards, most(cards))
    work = job.work * (asked / job.asked) ** job.exponent
    return replace(job, cards=cards, asked=asked, work=work)


def _job(name: str, line: str, cards: int, squeeze: float, error: float, *, per_model: bool) -> TraceJob:
    fields = line.split("\t")
    if len(fields) != COLUMNS:
        raise ValueError(f"{len(fields)} columns, not {COLUMNS}")
    model, batch = _model(fields[0])
    asked = min(int(fields[6]), cards)
    work = float(fields[4]) / RATES[model][batch]
    exponent = EXPONENTS[model][batch] if per_model else EXPONENT
    work *= asked**exponent / asked**EXPONENT
    duration = work / asked**exponent
    return TraceJob(name, float(fields[5]) / squeeze, asked, work, exponent, duration * exp(error))


def _model(text: str) -> tuple[str, int]:
    """Model and batch size of a job type such as `ResNet-18 (batch size 32)`; 0 if there is none."""
    model, _, rest = text.partition(" (batch size ")
    return model, int(rest.rstrip(")")) if rest else 0
