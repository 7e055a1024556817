"""Rates: the samples per second that a model trains on a number of cards, from an operator's table and from jobs.

The reports of jobs can be false. So each namespace has its own learnt rates: they change the widths of its own jobs
only, and take a bounded amount of memory.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import log

from device_plugin.core import card_models
from device_plugin.core.jobs.job import EXPONENT

# Bounds of the operator's table, and of the problems in it that are listed.
MAX_LINES, MAX_LINE, MAX_PROBLEMS = 4096, 512, 16
MAX_POINTS = 16
# Most learnt curves of a namespace, and most namespaces; the newest are kept. A curve takes up to 2 KiB.
MAX_CURVES, MAX_NAMESPACES = 16, 512
# A report of more samples per second is ignored.
MAX_SPEED = 1e12
# The weight of a new measurement against the earlier ones.
NEWS = 0.25
_POINT = re.compile(r"(?:([1-9][0-9]{0,4}):)?([0-9]{1,9}(?:\.[0-9]{1,6})?)")
_SHAPE = "MODEL CARD SPEED, or MODEL CARD 1:SPEED 8:SPEED …"

Points = Mapping[int, float]
"""Samples per second by number of cards."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The samples per second of a model on one card model, by number of cards; more cards are never slower.

    Between two measured points the speed follows a power of the number of cards; outside of them it follows n **
    EXPONENT. `guess`: the points were measured on another card model. `learnt`: they are from jobs, not from the
    operator.
    """

    points: tuple[tuple[int, float], ...]
    guess: bool = False
    learnt: bool = False

    @classmethod
    def of(cls, points: Points) -> "Curve":
        """The curve through at least one point; a speed that is lower than with fewer cards is raised to that speed."""
        best, kept = 0.0, []
        for cards in sorted(points):
            best = max(best, points[cards])
            kept.append((cards, best))
        return cls(tuple(kept))

    def speed(self, cards: int) -> float:
        """The samples per second of `cards` cards together."""
        below = max((point for point in self.points if point[0] <= cards), default=None)
        above = min((point for point in self.points if point[0] >= cards), default=None)
        if below is not None and above is not None and below[0] < above[0]:
            exponent = log(above[1] / below[1]) / log(above[0] / below[0])
        else:
            exponent = EXPONENT
        measured, speed = below or above or self.points[0]
        growth: float = (cards / measured) ** exponent
        return speed * growth


@dataclass(frozen=True, slots=True)
class Rates:
    """The curves of speed by the name of the model and the name of the card model."""

    curves: Mapping[tuple[str, str], Curve] = field(default_factory=dict)

    def curve(self, model: str, card: str) -> Curve | None:
        """The curve of a model on the card model `card`, which may be given by any of its names.

        If there is none, the result is the model's slowest curve on another card model, as a guess; None without any.
        """
        found = self.curves.get((model, card)) or self._by_another_name(model, card)
        if found is not None:
            return found
        others = [curve for (name, _), curve in self.curves.items() if name == model]
        return replace(min(others, key=lambda curve: curve.speed(1)), guess=True) if others else None

    def _by_another_name(self, model: str, card: str) -> Curve | None:
        wanted = card_models.names(card)
        found = ((of, curve) for (name, of), curve in self.curves.items() if name == model)
        return next((curve for of, curve in found if card_models.normal(of) in wanted), None)

    def slowest(self, model: str, cards: Iterable[str]) -> Curve | None:
        """The curve of a model on the slowest of these card models; None if no rate of the model is known.

        If no card model is given, the result is the slowest curve of the model, as a guess.
        """
        found = [curve for card in cards if (curve := self.curve(model, card))]
        return min(found, key=lambda curve: curve.speed(1), default=self.curve(model, ""))

    def unknown(self, model: str) -> str:
        """The beginning of an error text about a model without a known rate, with the names of models that have one."""
        names = sorted({name for name, _ in self.curves})
        known = f", only of {', '.join(names[:8])}{', …' if len(names) > 8 else ''}" if names else ""
        return f"no rate is known of the model {model}{known}"


def read_rates(text: str) -> tuple[Rates, list[str]]:
    """The rates in an operator's table, with a line for each model and card, and error texts about wrong lines.

    `resnet50 Z100 390` says that one card trains 390 samples per second; `resnet50 Z100 1:390 8:2500` says in addition
    that eight cards train 2,500 together. Empty lines and lines that begin with # are left out.
    """
    curves: dict[tuple[str, str], Curve] = {}
    problems = []
    for number, line in enumerate(text.splitlines()[: MAX_LINES + 1], 1):
        words = line.split() if len(line) <= MAX_LINE else []
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        points = _points(words[2:])
        if number > MAX_LINES:
            problems.append(f"the table of rates has more than {MAX_LINES} lines: write fewer")
        elif points is None:
            problems.append(f"line {number} of the table of rates is {line.strip()[:63]!r}: write {_SHAPE}")
        elif (words[0], words[1]) in curves:
            problems.append(
                f"line {number} of the table of rates repeats {words[0]} on {words[1]}: write one line"
            )
        else:
            curves[words[0], words[1]] = Curve.of(points)
    return Rates(curves), problems[:MAX_PROBLEMS]


def _points(words: list[str]) -> Points | None:
    """The points of a line by number of cards; None if there is no point, or one cannot be read."""
    found = [_POINT.fullmatch(word) for word in words]
    points = {int(match[1] or 1): float(match[2]) for match in found if match}
    whole = 0 < len(points) == len(words) <= MAX_POINTS
    return points if whole and all(speed > 0 for speed in points.values()) else None


class LearntRates:
    """The rates that the jobs of each namespace have reported, for jobs of that namespace."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, OrderedDict[tuple[str, str], dict[int, float]]] = OrderedDict()

    def add(self, namespace: str, model: str, card: str, cards: int, speed: float) -> None:
        """Learn from a job's report: `model` trains `speed` samples per second on `cards` cards of the model `card`.

        The known speed moves towards the reported speed by the share NEWS of the difference. The report is ignored if
        `cards` is below 1, or if `speed` is not between 0 and MAX_SPEED. Beyond MAX_POINTS, MAX_CURVES and
        MAX_NAMESPACES the oldest entries are dropped.
        """
        if cards < 1 or not 0 < speed < MAX_SPEED:
            return
        curves = self._of.setdefault(namespace, OrderedDict())
        self._of.move_to_end(namespace)
        points = curves.setdefault((model, card), {})
        curves.move_to_end((model, card))
        before = points.pop(cards, speed)
        points[cards] = before + (speed - before) * NEWS
        if len(points) > MAX_POINTS:
            del points[next(iter(points))]
        if len(curves) > MAX_CURVES:
            curves.popitem(last=False)
        if len(self._of) > MAX_NAMESPACES:
            self._of.popitem(last=False)

    def beside(self, namespace: str, table: Rates) -> Rates:
        """The rates for a namespace's jobs: the operator's `table`, and learnt rates for models and cards it lacks."""
        learnt: Mapping[tuple[str, str], Points] = self._of.get(namespace, {})
        own = {
            names: replace(Curve.of(points), learnt=True)
            for names, points in learnt.items()
            if names not in table.curves
        }
        return Rates({**own, **table.curves}) if own else table
