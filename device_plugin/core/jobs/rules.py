"""The parameters of the job engine, in seconds and shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from device_plugin.core.jobs.job import JobSpec

HOUR = 3600.0
# The traces of `vgpu bench jobs` do not decide it: with 300, 600, 900 and 1,800 s the mean JCT is 0.503, 0.504, 0.504
# and 0.504 of FIFO's, and a job restarts 1.56, 1.54, 1.54 and 1.53 times. But a wide job that gave cards to small jobs
# gets them back only after a cooldown: 64 small jobs delay a job of 128 cards by 236, 330, 469 and 887 s.
COOLDOWN_S = 300.0
# Seconds for which a pod may wait because no node has room for it, or take to end after its grace period, before its
# job is shrunk or stopped.
STRANDED_S = 120.0
# The mean JCT of twenty equal jobs of five minutes is 1.20 of FIFO's if each job makes room for the next immediately,
# and 1.00 if no job does so in its first ten minutes (`vgpu bench jobs --equal`).
YOUNG_S = 600.0
# The longest minimum runtime that a job may have: others of its priority wait no longer for a job that runs.
MAX_MIN_RUNTIME_S = 86_400
# Seconds in which a job that a plan has just started gives nothing to the next plan, which follows in milliseconds.
JUST_STARTED_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The parameters of one pool's rounds; `weights` are the weights of queues (1 for a queue without an entry)."""

    unit_s: float = HOUR
    """Level 1 of the rank begins at this work, in seconds of one replica; each next level begins at double the work."""
    quantum_s: float = HOUR
    """A job runs at least this long before it may be stopped for a job of its priority."""
    turn_share: float = 0.5
    """The length of a turn, as a share of the time that the job has run in all."""
    turn_s: float = 10 * HOUR
    """The longest turn; and the longest time for which a job keeps its cards because it was stopped for too long."""
    stop_s: float = 9 * HOUR
    """A job is due once it was stopped for this long: it goes before its equals in priority, and gets a reservation."""
    elastic_stop_s: float = 4 * HOUR
    """An elastic job is due after it was stopped for this long, in place of `stop_s`."""
    age_s: float = HOUR
    """A job that has never run is due after it has waited for this long."""
    cooldown_s: float = COOLDOWN_S
    """After a change of its width, a job does not grow for this long.

    In this time other jobs do not give way to a job that was stopped, or to a split that started or was resized.
    """
    growth: float = 1.0
    """A running job grows by at least this share of its width, or to its largest width, or not at all."""
    wide_growth: float = 0.25
    """A job may also grow by this smaller share of its width if it then takes at least the share `idle` of the pool."""
    idle: float = 0.125
    """The share of all cards of a pool that is worth the restart of a job that grows onto this share."""
    saving_s: float = 900.0
    """A running job with known remaining work grows only if it then ends at least this many seconds earlier."""
    shortness: float = 0.03
    """Growth prefers jobs that end soon: the speed that a card adds is divided by the remaining work to this power. A
    small power is enough to order jobs of similar width, because their speeds differ little.
    """
    young_s: float = YOUNG_S
    """A job is not made narrower for a job of its priority before it has run for this long: most jobs end soon."""
    resumable: bool = False
    """True if jobs without `vgpu.io/resumable` consent to be stopped for jobs of their priority."""
    resumable_queues: frozenset[str] = frozenset()
    """The queues in which jobs without `vgpu.io/resumable` consent to be stopped."""
    min_runtime_s: float = 0.0
    """The minimum runtime after each start of jobs without `vgpu.io/min-runtime`."""
    use: float = 1.0
    """The share of the cards that jobs may use; they leave the rest to other pods."""
    searches: int = 32
    """The most jobs of a round for which room is made by shrinking and stopping other jobs."""
    weights: Mapping[str, float] = field(default_factory=dict)

    def may_stop(self, job: JobSpec) -> bool:
        """True if the job consents to be stopped for a job of its priority."""
        if job.resumable is None:
            return self.resumable or job.queue in self.resumable_queues
        return job.resumable

    @property
    def narrow_s(self) -> float:
        """The seconds after its start from which a job may be made narrower for a job of its priority."""
        return max(self.young_s, JUST_STARTED_S)

    @property
    def due_quantum_s(self) -> float:
        """The least seconds that a job runs before it may be stopped for a due (long waiting) job of its priority."""
        return self.quantum_s / 2

    def stop_limit(self, job: JobSpec) -> float:
        """The seconds after which a stopped job is due (goes before others of its priority), at the latest."""
        return self.elastic_stop_s if job.elastic else self.stop_s

    def min_runtime(self, job: JobSpec) -> float:
        """The seconds after each start in which the job gives nothing to jobs of its priority."""
        return self.min_runtime_s if job.min_runtime is None else job.min_runtime

    def weight(self, queue: str) -> float:
        """The weight of a queue: the queue's share of the cards is proportional to it."""
        return self.weights.get(queue, 1.0)
