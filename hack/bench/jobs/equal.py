"""Twenty equal jobs come together: an elastic policy starts all of them soon but narrow, so that all end late."""

from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.policies import BASE, policy
from hack.bench.jobs.simulation import Costs, Simulation
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.trace import EXPONENT, TraceJob
from hack.bench.report import Report, table

JOBS, ASKED, CARDS = 20, 4, 28
# Seconds that a job takes at the width it asks for, between two rounds of the engine, and between two arrivals.
DURATION_S, TICK_S, APART_S = 287.0, 5.0, 0.5


def equal_jobs(rules: Rules) -> Report:
    """The report of the jobs' mean completion time and mean wait, by policy."""
    work = DURATION_S * ASKED**EXPONENT
    jobs = [
        TraceJob(f"{number:02}", number * APART_S, ASKED, work, EXPONENT, DURATION_S)
        for number in range(JOBS)
    ]
    figures, rows = {}, []
    for name in (BASE, "elastic-score", "engine", "engine-declared", "engine-progress", "engine-all"):
        decide, knows = policy(name, rules)
        runs = Simulation(
            jobs, SlotRoom(CARDS), decide, CARDS, knows=knows, costs=Costs(tick_s=TICK_S)
        ).run().runs  # fmt: skip
        jct = sum(run.finished - run.trace.arrival for run in runs) / JOBS
        wait = sum(run.first - run.trace.arrival for run in runs) / JOBS
        figures[name] = {"jct_mean_s": round(jct, 1), "wait_mean_s": round(wait, 1)}
        rows.append([name, f"{jct:.1f}", f"{wait:.1f}"])
    return Report(
        {"policies": figures},
        f"{JOBS} equal jobs of {ASKED} replicas on {CARDS} cards\n"
        + table(["policy", "mean JCT, s", "mean wait, s"], rows),
    )
