"""Draws the allocated and the fragmented share of the capacity, over the share that has been asked for."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hack.bench.replay import ARRIVALS, ReplayOutcome
from hack.bench.report import BenchError

PERCENT = range(1, round(100 * ARRIVALS) + 1)
FORMATS = (".png", ".svg", ".pdf")


def drawable(file: Path) -> None:
    """Check that the drawing can be made, before minutes of replays. Raises BenchError if not."""
    if find_spec("matplotlib") is None:
        raise BenchError("--plot needs matplotlib: pip install matplotlib")
    if file.suffix not in FORMATS:
        raise BenchError(f"--plot {file}: write a file that ends in {', '.join(FORMATS)}")
    if not file.parent.is_dir():
        raise BenchError(f"--plot {file}: no folder {file.parent}")


def draw(replays: Mapping[str, Sequence[ReplayOutcome]], file: Path) -> None:
    """Draw one line per policy, the mean of its seeds, into a file that is `drawable`. Raises BenchError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 7), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    for policy, outcomes in replays.items():
        curves = np.array([[outcome.at(percent) for percent in PERCENT] for outcome in outcomes])
        allocated, useless = np.nanmean(curves, axis=0).T
        above.plot(PERCENT, allocated, label=policy)
        below.plot(PERCENT, useless, label=policy)
    above.set_ylabel("allocated, % of the capacity")
    below.set_ylabel("idle and of no use, % of the capacity")
    below.set_xlabel("asked for so far, % of the capacity")
    above.legend()
    save(figure, file)


def save(figure: Any, file: Path) -> None:
    """Write a figure to a file that is `drawable`. Raises BenchError."""
    try:
        figure.savefig(file)
    except OSError as error:
        raise BenchError(f"--plot {file}: {error.strerror}") from None
