"""The parameters of the job engine, in seconds and shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from device_plugin.core.jobs.job import JobSpec

HOUR = 3600.0
# The traces of `vgpu bench jobs` do not decide it: with 300, 600, 900 and 1,800 s the mean JCT is 0.503, 0.504, 0.504
# and 0.504 of FIFO's, and a job restarts 1.56, 1.54, 1.54 and 1.53 times. But a wide job that gave way to small ones
# has its cards back only after it: 64 small ones at once delay one of 128 cards by 236, 330, 469 and 887 s.
COOLDOWN_S = 300.0
# Seconds for which a pod may wait because no node has room for it, or take to end after its grace period, before its
# job is shrunk or stopped.
STRANDED_S = 120.0
# The mean JCT of twenty equal jobs of five minutes is 1.20 of FIFO's where each makes room for the next one at once,
# and 1.00 where none does in its first ten minutes (`vgpu bench jobs --equal`).
YOUNG_S = 600.0
# The longest minimum runtime that a job may have: others of its priority wait no longer for a job that runs.
MAX_MIN_RUNTIME_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The parameters of one pool's rounds; `weights` are those of queues, 1 for a queue without one."""

    unit_s: float = HOUR
    """Work of the first level of the rank, in seconds of one replica; each further level is twice as much."""
    quantum_s: float = HOUR
    """A job runs at least this long before it may be suspended for another one of its priority."""
    turn_share: float = 0.5
    """A job runs on for this share of the time that it has run in all, before a job that ran before takes its place."""
    turn_s: float = 10 * HOUR
    """A job does not run on for longer than this for that reason, nor because it had been stopped for too long."""
    stop_s: float = 9 * HOUR
    """A job that has been stopped for this long goes before others of its priority; cards are reserved for it."""
    elastic_stop_s: float = 4 * HOUR
    """So does an elastic job, which goes on with its least width."""
    age_s: float = HOUR
    """So does a job that has never run and has waited for this long."""
    cooldown_s: float = COOLDOWN_S
    """The width of a job does not grow for this long after it changed.

    Nor do others give way in that time to a job that was stopped, or to a split that started or was resized.
    """
    growth: float = 1.0
    """A running job grows by at least this share of its width, or to its most, or not at all."""
    wide_growth: float = 0.25
    """This share of its width is enough where it is at least the share `idle` of all cards."""
    idle: float = 0.125
    """The share of all cards that is worth the restart of a job that takes it."""
    saving_s: float = 900.0
    """A running job of which the remaining work is known grows only if it ends at least this much earlier."""
    shortness: float = 0.03
    """Growth prefers jobs that are known to end soon: the speed that a card adds is divided by the remaining work to
    this power. Speeds of neighbouring widths differ little, so a small one orders jobs that are about as wide."""
    young_s: float = YOUNG_S
    """A job is not made narrower for an equal before it has run for this long: most jobs end soon."""
    resumable: bool = False
    """Whether jobs that say nothing about it consent to be stopped for jobs of their priority."""
    resumable_queues: frozenset[str] = frozenset()
    """The queues whose jobs consent where they say nothing about it."""
    min_runtime_s: float = 0.0
    """A job that says nothing about it gives nothing to its equals for this long after each start."""
    use: float = 1.0
    """The share of the cards that may be in use; jobs leave the rest to other pods."""
    searches: int = 32
    """For at most this many jobs of a round room is sought by shrinking and suspending others."""
    weights: Mapping[str, float] = field(default_factory=dict)

    def may_stop(self, job: JobSpec) -> bool:
        """True if the job consents to be stopped for a job of its priority."""
        if job.resumable is None:
            return self.resumable or job.queue in self.resumable_queues
        return job.resumable

    @property
    def due_quantum_s(self) -> float:
        """Seconds that a job runs at least before it may be suspended for another job that is due."""
        return self.quantum_s / 2

    def stop_limit(self, job: JobSpec) -> float:
        """Seconds after which a stopped job goes before others, at the latest."""
        return self.elastic_stop_s if job.elastic else self.stop_s

    def min_runtime(self, job: JobSpec) -> float:
        """Seconds after each start for which the job gives nothing to its equals."""
        return self.min_runtime_s if job.min_runtime is None else job.min_runtime

    def weight(self, queue: str) -> float:
        """The weight of a queue."""
        return self.weights.get(queue, 1.0)
