"""The metrics of the job engine."""

from collections import Counter
from collections.abc import Callable, Iterator

from device_plugin.core.jobs.job import JobKey
from device_plugin.core.metrics import Exporter, Metric, MetricType, Reading
from device_plugin.jobs.execute.writes import Write
from device_plugin.jobs.plan.round import Round, Rounds
from device_plugin.jobs.show.explain import by_phase, widths
from device_plugin.jobs.show.views import stuck_for
from device_plugin.jobs.watch.known import KnownJobs

JOBS = Metric(
    "vgpu_jobs",
    Exporter.ENGINE,
    "Jobs of the queue in this phase, as the last round saw them.",
    ("queue", "phase"),
)
WIDTH = Metric(
    "vgpu_job_replicas", Exporter.ENGINE,
    "Pods that the Job has, or will have once what is under way with its width is done.", ("namespace", "job"),
)  # fmt: skip
STUCK = Metric(
    "vgpu_job_stuck_seconds", Exporter.ENGINE,
    "For how long a Job that runs has made no progress, if that is ten times its usual interval and at least 10 min.",
    ("namespace", "job"),
)  # fmt: skip
ROUND_SECONDS = Metric("vgpu_job_round_seconds", Exporter.ENGINE, "How long the last plan took to make.")
WRITES = Metric(
    "vgpu_job_writes_total", Exporter.ENGINE_REPLICA, "Writes of Jobs and of their pods, by what they did.",
    ("action",), MetricType.COUNTER,
)  # fmt: skip
LEADS = Metric(
    "vgpu_job_engine_leader", Exporter.ENGINE_REPLICA, "1 on the replica that plans, 0 on the others."
)


class JobGauges:
    """Reads the samples of a scrape; `leads` is true on the replica that plans."""

    def __init__(self, known: KnownJobs, rounds: Rounds, leads: Callable[[], bool]) -> None:
        self._known = known
        self._rounds = rounds
        self._leads = leads
        self._writes: Counter[str] = Counter()

    def count(self, write: Write) -> None:
        """Count a write that was done."""
        self._writes[write.action.value] += 1

    def __call__(self) -> Iterator[Reading]:
        """All metrics; those of the cluster only from the leading replica."""
        leads = self._leads()
        yield Reading(LEADS, [((), float(leads))])
        yield Reading(WRITES, [((action,), float(count)) for action, count in sorted(self._writes.items())])
        if leads:
            last = self._rounds.last
            yield Reading(JOBS, [(key, float(count)) for key, count in sorted(by_phase(last).items())])
            yield Reading(WIDTH, [(key, float(width)) for key, width in sorted(widths(last).items())])
            yield Reading(STUCK, sorted(self._stuck(last)))
            yield Reading(ROUND_SECONDS, [((), last.seconds)])

    def _stuck(self, last: Round) -> Iterator[tuple[JobKey, float]]:
        for key, managed in self._known.managed().items():
            seconds = stuck_for(managed, last.states.get(key))
            if seconds is not None:
                yield key, seconds
