"""The time of one round for many jobs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from device_plugin.core.jobs.room import LedgerRoom, Room
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.core.jobs.search import Search
from device_plugin.core.placement import Placer
from device_plugin.core.requests import Selector
from hack.bench.jobs.nodes import node_ledger, node_room
from hack.bench.jobs.simulation import spec_of
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.trace import EXPONENT, TraceJob
from hack.bench.report import Report

WIDTHS, NOW = (1, 1, 1, 2, 4, 8), 100 * HOUR


def planned_in(count: int, per_node: int, rules: Rules) -> Report:
    """The CPU seconds of a round of `count` jobs on `count` cards: with all cards busy, and with only new jobs.

    On nodes (`per_node` above 0), also of a round in which all jobs wait and have different requests.
    """
    room: Room = node_room(count, per_node) if per_node else SlotRoom(count)
    jobs = _jobs(count, room)
    waiting = sum(job.queued for job in jobs)
    with room.trial():
        busy_s, steps = _timed(jobs, room, rules)
    for job in jobs:
        if job.width:
            room.give(job.spec, job.width)
    new = [JobState(spec=job.spec, since=NOW) for job in jobs]
    first_s, first = _timed(new, room, rules)
    figures: dict[str, float] = {
        "jobs": count, "cards": count, "waiting": waiting, "busy_s": round(busy_s, 3), "busy_steps": steps,
        "first_s": round(first_s, 3), "first_steps": first,
    }  # fmt: skip
    text = (
        f"{count} jobs on {count} cards, in seconds of the processor: {busy_s:.3f} for a round while {waiting} of them"
        f" wait ({steps} steps), {first_s:.3f} for the first round of all ({first} steps)"
    )
    if per_node:
        worst_s, rounds = _distinct(count, per_node, rules)
        figures |= {"distinct_s": round(worst_s, 3), "distinct_rounds": rounds}
        text += (
            f"; {worst_s:.3f} for the longest round where each asks for something else ({rounds} rounds until all of"
            " them were looked at)"
        )
    return Report(figures, text)


def _distinct(count: int, per_node: int, rules: Rules) -> tuple[float, int]:
    """Run rounds until all of `count` jobs were tried; returns the CPU time of the longest, and the number of rounds.

    All cards are taken, and no two jobs have the same request. A round tries jobs until the engine's time limit.
    """
    ledger = node_ledger(count, per_node)
    for node in ledger.nodes():
        for card in ledger.inventories()[node].cards:
            ledger.hold(Grant(card.uuid, node, {"main": (Slice(card.uuid, card.mem_mib, (0,)),)}))
    placer = Placer(ledger)
    search = Search(ledger, placer)
    jobs = [JobState(spec=_spec(number, count), since=NOW - HOUR / 2) for number in range(count)]
    spent = list[float]()
    while not spent or search.cut:
        search.begin({job.spec.user for job in jobs})
        spent.append(_timed(jobs, LedgerRoom(ledger, placer, {}, search=search), rules)[0])
    return max(spent), len(spent)


def _spec(number: int, cards: int) -> JobSpec:
    """A job of one card whose request differs from all other jobs' requests."""
    made = spec_of(TraceJob(f"{number:05}", 0.0, 1, HOUR, EXPONENT, HOUR), 1, cards)
    return replace(made, request=replace(made.request, models=Selector(f"!none-{number}")))


def _jobs(count: int, room: Room) -> Sequence[JobState]:
    """Jobs of several widths: as many as the room holds run, the others wait or were stopped."""
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


def _timed(jobs: Sequence[JobState], room: Room, rules: Rules) -> tuple[float, int]:
    started = time.process_time()
    plan = plan_round(NOW, jobs, room, rules)
    return time.process_time() - started, len(plan.steps)
