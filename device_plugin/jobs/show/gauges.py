"""The metrics of the job engine."""

from collections import Counter
from collections.abc import Callable, Iterator
from heapq import nlargest, nsmallest

from device_plugin.core.contract.metrics import OTHERS, Exporter, Metric, MetricType, Reading, largest
from device_plugin.core.jobs.job import JobKey
from device_plugin.jobs.execute.writes import Action, Write
from device_plugin.jobs.pools.planners import Planners
from device_plugin.jobs.round import Round
from device_plugin.jobs.show.explain import by_phase, waiting_since, widths
from device_plugin.jobs.show.queue_waits import MOST_QUEUES, QueueWaits
from device_plugin.jobs.show.views import stuck_for, waiting_places
from device_plugin.state.jobs import KnownJobs

# Most Jobs, and most phases of queues, of a metric; most Jobs that wait.
MOST_JOBS = 1000
MOST_PLACES = 500

JOBS = Metric(
    "vgpu_jobs",
    Exporter.ENGINE,
    "Jobs of the queue in this phase, as the last round saw them; `pool` is empty where there is only one."
    f" Of many queues the smallest are one, {OTHERS}.",
    ("pool", "queue", "phase"),
)
WIDTH = Metric(
    "vgpu_job_replicas", Exporter.ENGINE,
    f"Pods that the Job has, or will have after the change in progress. Of more than {MOST_JOBS} Jobs the others are"
    f" one, {OTHERS}.", ("namespace", "job"),
)  # fmt: skip
PLACE = Metric(
    "vgpu_job_place", Exporter.ENGINE,
    f"Place of the Job among those that wait in its queue; 1 is next. Of more than {MOST_PLACES} Jobs those with the"
    " first places.", ("namespace", "job"),
)  # fmt: skip
STUCK = Metric(
    "vgpu_job_stuck_seconds", Exporter.ENGINE,
    "For how long a Job that runs has made no progress, if that is ten times its usual interval and at least 10 min."
    f" Of more than {MOST_JOBS} Jobs those that have been stuck longest.",
    ("namespace", "job"),
)  # fmt: skip
LONGEST_WAIT = Metric(
    "vgpu_queue_longest_wait_seconds", Exporter.ENGINE,
    "For how long the Job of the queue that has waited longest has waited for room: since its creation, or since it was"
    " stopped. Without Jobs that wait for others of their group, and Jobs that were refused. Absent while none waits."
    f" Of more than {MOST_QUEUES} queues those with the longest waits.",
    ("pool", "queue"),
)  # fmt: skip
ROUND_SECONDS = Metric(
    "vgpu_job_round_seconds", Exporter.ENGINE, "How long the last plan of the pool took to make.", ("pool",)
)
WRITES = Metric(
    "vgpu_job_writes_total", Exporter.ENGINE_REPLICA, "Writes of Jobs and of their pods, by what they did.",
    ("action",), MetricType.COUNTER,
)  # fmt: skip
LEADS = Metric(
    "vgpu_job_engine_leader", Exporter.ENGINE_REPLICA,
    "1 on the replica that plans, or gives jobs to pools where there are several; 0 on the others.",
)  # fmt: skip
PLANNER = Metric(
    "vgpu_job_pool_planner",
    Exporter.ENGINE,
    "1 on the replica that plans the pool, where there are several.",
    ("pool",),
)


class JobGauges:
    """Computes the job engine's metrics at each scrape.

    `leads` returns true on the dispatcher; `wall` returns the seconds since 1970.
    """

    def __init__(
        self, known: KnownJobs, planners: Planners, leads: Callable[[], bool], wall: Callable[[], float]
    ) -> None:
        self._known = known
        self._planners = planners
        self._leads = leads
        self._wall = wall
        self._writes: Counter[str] = Counter()
        self._waits = QueueWaits(wall)

    def count(self, write: Write) -> None:
        """Count a write that was done; if it starts a Job, count also how long the Job had waited."""
        self._writes[write.action.value] += 1
        if write.action is Action.START:
            self._waits.started(write.managed)

    def __call__(self) -> Iterator[Reading]:
        """The samples of all metrics; those of a pool (part of the cards) only if this replica plans it."""
        yield Reading(LEADS, [((), float(self._leads()))])
        yield Reading(WRITES, [((action,), float(count)) for action, count in sorted(self._writes.items())])
        yield from self._waits()
        planning = [(planner.pool, planner.rounds.last) for planner in self._planners.planning()]
        if planning:
            phases = {(pool, *key): float(n) for pool, last in planning for key, n in by_phase(last).items()}
            yield Reading(JOBS, largest(phases, MOST_JOBS, lambda labels: (labels[0], OTHERS, labels[2])))
            wide = {key: float(width) for _, last in planning for key, width in widths(last).items()}
            yield Reading(WIDTH, largest(wide, MOST_JOBS, lambda _: (OTHERS, OTHERS)))
            waiting = (
                (key, float(place))
                for planner in self._planners.planning()
                for key, place in waiting_places(planner.rounds.last, planner.rounds.rules).items()
            )
            yield Reading(PLACE, sorted(nsmallest(MOST_PLACES, waiting, key=lambda each: (each[1], each[0]))))
            stuck = (each for _, last in planning for each in self._stuck(last))
            yield Reading(STUCK, sorted(nlargest(MOST_JOBS, stuck, key=lambda each: each[1])))
            now = self._wall()
            waits = (
                ((pool, queue), max(0.0, now - since))
                for pool, last in planning
                for queue, since in waiting_since(last).items()
            )
            yield Reading(LONGEST_WAIT, sorted(nlargest(MOST_QUEUES, waits, key=lambda each: each[1])))
            yield Reading(ROUND_SECONDS, [((pool,), last.seconds) for pool, last in planning])
            yield Reading(PLANNER, [((pool,), 1.0) for pool, _ in planning if pool])

    def _stuck(self, last: Round) -> Iterator[tuple[JobKey, float]]:
        managed = self._known.managed()
        for key in last.states.keys() & managed.keys():
            seconds = stuck_for(managed[key], last.states[key])
            if seconds is not None:
                yield key, seconds
