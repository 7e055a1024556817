"""A leading replica exports at most 5,000 samples, however many Jobs and queues tenants make."""

from types import SimpleNamespace
from typing import Any

from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.requests import PodRequest
from device_plugin.jobs.execute.writes import Action
from device_plugin.jobs.round import Round
from device_plugin.jobs.show.gauges import JobGauges

MOST_SAMPLES = 5000
JOBS = 4000


def test_4000_stuck_and_waiting_jobs_in_queues_of_their_own_are_at_most_5000_samples() -> None:
    states = {}
    for number in range(2 * JOBS):
        key = "team", f"job-{number}"
        spec = JobSpec(key=key, queue=f"queue-{number}", request=PodRequest("", ()))
        phase, width = (JobPhase.RUNNING, 1) if number < JOBS else (JobPhase.WAITING, 0)
        states[key] = JobState(spec=spec, phase=phase, width=width, since=float(number))
    stuck = SimpleNamespace(history=SimpleNamespace(stuck_for=3600.0))
    known: Any = SimpleNamespace(managed=lambda: dict.fromkeys(states, stuck))
    planner = SimpleNamespace(pool="", rounds=SimpleNamespace(last=Round(states=states), rules=Rules()))
    planners: Any = SimpleNamespace(planning=lambda: [planner])
    read = JobGauges(known, planners, lambda: True, lambda: 1e6)
    for state in states.values():
        managed = SimpleNamespace(rests_since=lambda now: now, spec=state.spec)
        started: Any = SimpleNamespace(action=Action.START, managed=managed)
        read.count(started)
    found = {reading.metric.name: len([*reading.samples]) for reading in read()}
    assert sum(found.values()) <= MOST_SAMPLES, found
    assert min(found[name] for name in ("vgpu_jobs", "vgpu_job_replicas", "vgpu_job_stuck_seconds")) >= 1000
    assert found["vgpu_job_place"] == 500
    assert min(found[name] for name in ("vgpu_queue_longest_wait_seconds", "vgpu_queue_starts_total")) >= 400
