"""The rank of a job: the less work it is expected to have left, the earlier it goes."""

from math import floor, log2

from device_plugin.core.jobs.job import EXPONENT, JobSpec, JobState
from device_plugin.core.jobs.rules import Rules


def expected_work(job: JobState) -> float:
    """The work that a job is expected to have left, in seconds of one replica.

    It is the remaining work where that is known. Otherwise it is as much as the job has had already: the lengths of
    training jobs differ by orders of magnitude, and what has run for long is likely to run for long.
    """
    return attained_work(job) if job.remaining is None else job.remaining


def declared_work(job: JobSpec, width: int, attained: float) -> float | None:
    """The work that a job has left by its declared duration, in seconds of one replica; None if it declares none.

    The duration was declared for `width` replicas; 0 if that is not known. The work done is counted as if the job had
    had its service at that width. The work left is unknown (None) once a job has had more than it declared.
    """
    if job.expected_seconds is None or not width or not job.cards or job.parts:
        return None
    left = job.expected_seconds * width - attained / job.cards
    return left * float(width) ** (EXPONENT - 1) if left > 0 else None


def attained_work(job: JobState) -> float:
    """The service that a job has had, in seconds of one replica."""
    return job.attained / job.spec.cards if job.spec.cards else 0.0


def level(work: float, rules: Rules) -> int:
    """The level of an amount of work: 0 below `unit_s`, and 1 more with each doubling.

    Jobs of one level are equals, so that two jobs that are nearly alike do not take turns at every round.
    """
    return 0 if work < rules.unit_s else 1 + floor(log2(work / rules.unit_s))


def next_level_at(job: JobState, now: float, rules: Rules) -> float:
    """The time at which a running job reaches the next level of attained service."""
    have = attained_work(job)
    following = rules.unit_s * 2.0 ** level(have, rules)
    return now + (following - have) / job.width


def turn_end(job: JobState, rules: Rules) -> float:
    """The time from which a running job may be suspended for a job that ran before.

    A turn is the longer, the longer the job has run: each suspension costs a checkpoint and a start.
    """
    ran = attained_work(job) / max(1, job.width)
    return job.since + max(rules.quantum_s, min(rules.turn_s, rules.turn_share * ran))


def kept_until(job: JobState, rules: Rules, *, due: bool = False, willing: bool = True) -> float:
    """The time before which a running job gives nothing to a job of its priority, or to a `due` one.

    A job that had been stopped for too long runs on for as long as it was stopped, unless another one is due. For one
    that is not `willing` to be stopped it always does: that one would have the cards until its end.
    """
    protected = job.started + rules.min_runtime(job.spec)
    ran_on = max(protected, job.started + min(rules.turn_s, job.stopped_s))
    if not willing:
        return ran_on
    return protected if due or job.stopped_s < rules.stop_limit(job.spec) else ran_on
