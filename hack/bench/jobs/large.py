"""The time of one round for many jobs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import HOUR, Rules
from hack.bench.jobs.nodes import node_room
from hack.bench.jobs.simulation import spec_of
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.trace import EXPONENT, TraceJob
from hack.bench.report import Report

WIDTHS, NOW = (1, 1, 1, 2, 4, 8), 100 * HOUR


def planned_in(count: int, per_node: int) -> Report:
    """Processor seconds of a round of `count` jobs on as many cards, while all are busy and when all jobs are new."""
    room: Room = node_room(count, per_node) if per_node else SlotRoom(count)
    jobs = _jobs(count, room)
    waiting = sum(job.queued for job in jobs)
    with room.trial():
        busy_s, steps = _timed(jobs, room)
    for job in jobs:
        if job.width:
            room.give(job.spec, job.width)
    new = [JobState(spec=job.spec, since=NOW) for job in jobs]
    first_s, first = _timed(new, room)
    figures = {
        "jobs": count, "cards": count, "waiting": waiting, "busy_s": round(busy_s, 3), "busy_steps": steps,
        "first_s": round(first_s, 3), "first_steps": first,
    }  # fmt: skip
    return Report(
        figures,
        f"{count} jobs on {count} cards, in seconds of the processor: {busy_s:.3f} for a round while {waiting} of them"
        f" wait ({steps} steps), {first_s:.3f} for the first round of all ({first} steps)",
    )


def _jobs(count: int, room: Room) -> Sequence[JobState]:
    """Jobs of several widths, which run until the room is full; the others wait or were stopped."""
    rng = Random(1)
    jobs = []
    for number in range(count):
        asked = rng.choice(WIDTHS)
        spec = spec_of(TraceJob(f"{number:05}", 0.0, asked, HOUR, EXPONENT, HOUR), 1, count)
        since = NOW - rng.uniform(0, 12 * HOUR)
        job = JobState(
            spec=spec, phase=rng.choice((JobPhase.WAITING, JobPhase.STOPPED)), since=since, resized=since,
            attained=rng.uniform(0, 100) * HOUR,
        )  # fmt: skip
        width = rng.randint(1, asked)
        if room.free(spec) >= width and room.take(spec, width):
            job = replace(job, phase=JobPhase.RUNNING, width=width)
        jobs.append(job)
    return jobs


def _timed(jobs: Sequence[JobState], room: Room) -> tuple[float, int]:
    started = time.process_time()
    plan = plan_round(NOW, jobs, room, Rules())
    return time.process_time() - started, len(plan.steps)
