"""Rounds over plain slots, and what becomes of jobs when a plan is carried out at once."""

from collections.abc import Sequence
from dataclasses import replace

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Plan, Refuse, Scale, Suspend, Window
from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.slots import SlotRoom

RULES = Rules()
NOW = 1_000_000.0


def planned(slots: int, *jobs: JobState, now: float = NOW, rules: Rules = RULES) -> Plan:
    """The plan of a round over `slots` cards, of which these jobs hold their widths."""
    held = sum(job.width * int(job.spec.cards) for job in jobs)
    assert held <= slots
    return plan_round(now, jobs, SlotRoom(slots, held), rules)


def carried_out(jobs: Sequence[JobState], plan: Plan, now: float) -> list[JobState]:
    """The jobs after all steps of the plan."""
    after = {job.spec.key: job for job in jobs}
    for step in plan.steps:
        job = after[step.job]
        match step:
            case Admit():
                changed = {
                    "phase": JobPhase.RUNNING,
                    "width": step.width,
                    "since": now,
                    "resized": now,
                    "started": now,
                    "stopped_s": now - job.since if job.phase is JobPhase.STOPPED else 0.0,
                    "displaced": False,
                }
            case Scale():
                changed = {
                    "width": step.after,
                    "resized": now,
                    "young": max(0, job.young + step.after - step.before),
                }
            case Window():
                changed = {"width": step.parallelism}
            case Suspend():
                changed = {"phase": JobPhase.STOPPED, "width": 0, "since": now, "displaced": True}
            case Refuse():
                changed = {"phase": JobPhase.REFUSED}
        after[step.job] = replace(job, **changed)  # type: ignore[arg-type]
    return list(after.values())


def widths(jobs: Sequence[JobState], plan: Plan) -> dict[str, int]:
    """The width of each job by name after the plan."""
    return {job.spec.key[1]: job.width for job in carried_out(jobs, plan, NOW)}
