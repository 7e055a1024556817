"""Draws the distribution of the jobs' completion times under each policy."""

from collections.abc import Mapping
from pathlib import Path

from hack.bench.jobs.simulation import SimulationOutcome
from hack.bench.plot import save


def draw(outcomes: Mapping[str, SimulationOutcome], file: Path) -> None:
    """Draw one line per policy: the share of jobs that end within a time. `file` is `drawable`. Raises BenchError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for policy, outcome in outcomes.items():
        times = sorted((run.finished - run.trace.arrival) / 3600 for run in outcome.runs)
        axes.plot(times, [(n + 1) / len(times) for n in range(len(times))], label=policy)
    axes.set_xscale("log")
    axes.set_xlabel("from arrival to end, hours")
    axes.set_ylabel("share of the jobs")
    axes.legend()
    save(figure, file)
