"""The rank of a job: jobs with less expected remaining work come first."""

from math import floor, log2

from device_plugin.core.jobs.job import EXPONENT, JobSpec, JobState
from device_plugin.core.jobs.rules import Rules


def expected_work(job: JobState) -> float:
    """The work that a job is expected to have left, in seconds of one replica.

    If the remaining work is not known, it is the job's past service: the lengths of training jobs differ by orders of
    magnitude, so a job that has run for long will probably run for long.
    """
    return attained_work(job) if job.remaining is None else job.remaining


def declared_work(job: JobSpec, width: int, attained: float) -> float | None:
    """The remaining work by the job's declared duration, in seconds of one replica; None if it cannot be known.

    The duration was declared for `width` replicas (0: unknown). Past service (`attained`) counts as if the job had run
    with this width. Once the job has run for longer than declared, its remaining work is unknown.
    """
    if job.expected_seconds is None or not width or not job.cards or job.parts:
        return None
    left = job.expected_seconds * width - attained / job.cards
    return left * float(width) ** (EXPONENT - 1) if left > 0 else None


def attained_work(job: JobState) -> float:
    """The past service of a job (the work done for it), in seconds of one replica."""
    return job.attained / job.spec.cards if job.spec.cards else 0.0


def level(work: float, rules: Rules) -> int:
    """The level of an amount of work, in seconds: 0 below `unit_s`, 1 from there, and one more with each doubling.

    Jobs of one level count as equal, so that two similar jobs do not stop each other in every round.
    """
    return 0 if work < rules.unit_s else 1 + floor(log2(work / rules.unit_s))


def next_level_at(job: JobState, now: float, rules: Rules) -> float:
    """The time at which a running job's past service (card-seconds) reaches the next level, a power of two."""
    have = attained_work(job)
    following = rules.unit_s * 2.0 ** level(have, rules)
    return now + (following - have) / job.width


def turn_end(job: JobState, rules: Rules) -> float:
    """The time at which a running job's turn ends; until then it keeps its cards from jobs that ran before.

    A job that has run longer has a longer turn, because each stop costs a checkpoint and a restart.
    """
    ran = attained_work(job) / max(1, job.width)
    return job.since + max(rules.quantum_s, min(rules.turn_s, rules.turn_share * ran))


def kept_until(job: JobState, rules: Rules, *, due: bool = False, willing: bool = True) -> float:
    """The time until which a running job gives nothing to a waiting job of its priority.

    A running job keeps its cards for its minimum runtime after its start. In two cases it also keeps them for as long
    as it was stopped before this start, but at most `turn_s`:
    - The waiting job is not `willing` to be stopped: once it ran, it would keep the cards until its end.
    - The running job was stopped for too long, and the waiting job is not `due`.
    """
    protected = job.started + rules.min_runtime(job.spec)
    ran_on = max(protected, job.started + min(rules.turn_s, job.stopped_s))
    if not willing:
        return ran_on
    return protected if due or job.stopped_s < rules.stop_limit(job.spec) else ran_on
