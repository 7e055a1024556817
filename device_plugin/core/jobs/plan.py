"""Plans: a plan is the list of one round's changes; a draft is a plan that the round still makes and tries."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf

from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.room import Room


@dataclass(frozen=True, slots=True)
class Admit:
    """A step of a plan: the job starts with `width` replicas, once the jobs that give way have released their cards."""

    job: JobKey
    width: int


@dataclass(frozen=True, slots=True)
class Scale:
    """A step of a plan: the width (number of pods) of a running job changes.

    If the job shrinks, `beneficiary` is the job that gets the cards; None if they are for no job.
    """

    job: JobKey
    before: int
    after: int
    beneficiary: JobKey | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A step of a plan: the number of a split's sub-tasks that run at a time changes to `parallelism`."""

    job: JobKey
    parallelism: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """A step of a plan: a running job stops, and waits to go on; `beneficiary` is the job that gets its cards."""

    job: JobKey
    beneficiary: JobKey


@dataclass(frozen=True, slots=True)
class Refuse:
    """A step of a plan: the job is refused, and `text` says what to do.

    The pool could not hold the job even if nothing ran, or the job contradicts other Jobs of its group or split.
    """

    job: JobKey
    text: str


Step = Admit | Scale | Window | Suspend | Refuse


@dataclass(frozen=True, slots=True)
class Reserved:
    """The cards kept for a due (long waiting) job: their `nodes`, and the job's expected `start`, inf if unknown."""

    nodes: tuple[str, ...]
    start: float = inf


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one round: at most one step for each job; steps that release cards come first.

    `again` is the earliest time at which another round may make changes although no job and no card has changed. Each
    due job that does not start is in `reserved`, or in `unreserved` with the reason why no cards are kept for it.
    """

    steps: tuple[Step, ...] = ()
    again: float = inf
    reserved: Mapping[JobKey, Reserved] = field(default_factory=dict)
    unreserved: Mapping[JobKey, str] = field(default_factory=dict)

    def given(self, job: JobKey) -> Iterator[JobKey]:
        """The jobs that shrink or stop so that `job` gets their cards."""
        for step in self.steps:
            if isinstance(step, (Scale, Suspend)) and step.beneficiary == job:
                yield step.job


class Draft:
    """A plan that the round still changes: the jobs' widths (numbers of pods), and the room that they leave.

    `room` holds all replicas that hold cards now. Each change is made here and in the room; a change in a `trial` is
    undone unless the trial is kept. At most the share `use` of the room's cards may be in use.
    """

    def __init__(self, now: float, jobs: Iterable[JobState], room: Room, use: float = 1.0) -> None:
        self.now = now
        self.jobs: Mapping[JobKey, JobState] = {job.spec.key: job for job in jobs}
        self.room = room
        self.widths = {key: job.width for key, job in self.jobs.items()}
        self.refused: dict[JobKey, str] = {}
        self.reserved: dict[JobKey, Reserved] = {}
        self.unreserved: dict[JobKey, str] = {}
        self.cards_of: dict[str, float] = {}
        """The cards that the jobs of each queue have."""
        self.cards_by_user: dict[tuple[str, str], float] = {}
        """The cards that the jobs of each queue's users have, by queue and user."""
        for job in self.jobs.values():
            self._count(job.spec, job.width)
        self.budget = room.idle() - (1 - use) * room.cards() if use < 1 else inf
        """The number of cards that may still be taken; below 0 if more are in use than allowed."""
        self._beneficiaries: dict[JobKey, JobKey] = {}
        # Widths and beneficiaries before each change, to undo it.
        self._log: list[tuple[JobKey, int, JobKey | None]] = []

    def width(self, job: JobState) -> int:
        """The width (number of pods) that the job has in this draft of a plan."""
        return self.widths[job.spec.key]

    def widen(self, job: JobState, width: int) -> bool:
        """Widen the job to `width` replicas; false, without a change, if that is not possible.

        The new replicas may not fit, or may take more cards than the plan may still use (`budget`).
        """
        key = job.spec.key
        count = width - self.widths[key]
        if count * job.spec.cards > self.budget or not self.room.take(job.spec, count):
            return False
        self._change(key, width, self._beneficiaries.get(key))
        return True

    def narrow(self, job: JobState, width: int, beneficiary: JobSpec | None = None) -> None:
        """Narrow the job to `width` replicas (0: stop it), to make room for `beneficiary`.

        If `beneficiary` is None, the room is for no certain job.
        """
        key = job.spec.key
        self.room.give(job.spec, self.widths[key] - width)
        self._change(key, width, beneficiary.key if beneficiary else None)

    def refuse(self, job: JobState, text: str) -> None:
        """Refuse the job with a text that says what to do."""
        self.refused[job.spec.key] = text

    def narrowed(self, job: JobState) -> bool:
        """True if the job gives cards to another job in this draft of a plan."""
        return job.spec.key in self._beneficiaries

    @contextmanager
    def trial(self) -> Iterator["Attempt"]:
        """A block in which changes of the draft are tried; at its end they are undone, unless its `keep` was called."""
        attempt, start = Attempt(), len(self._log)
        with self.room.trial() as change:
            yield attempt
            if attempt.kept:
                change.commit()
        if not attempt.kept:
            while len(self._log) > start:
                self._set(*self._log.pop())

    def _change(self, key: JobKey, width: int, beneficiary: JobKey | None) -> None:
        self._log.append((key, self.widths[key], self._beneficiaries.get(key)))
        self._set(key, width, beneficiary)

    def _set(self, key: JobKey, width: int, beneficiary: JobKey | None) -> None:
        job = self.jobs[key].spec
        self._count(job, width - self.widths[key])
        self.budget -= (width - self.widths[key]) * job.cards
        self.widths[key] = width
        if beneficiary is None:
            self._beneficiaries.pop(key, None)
        else:
            self._beneficiaries[key] = beneficiary

    def _count(self, job: JobSpec, replicas: int) -> None:
        self.cards_of[job.queue] = self.cards_of.get(job.queue, 0.0) + replicas * job.cards
        user = job.queue, job.user
        self.cards_by_user[user] = self.cards_by_user.get(user, 0.0) + replicas * job.cards

    def plan(self, again: float = inf) -> Plan:
        """The plan: the steps that lead from the jobs' present widths (numbers of pods) to the draft's widths.

        `again` is the time of the next round if no job and no card changes.
        """
        steps = sorted(self._steps(), key=_releasing_first)
        return Plan(tuple(steps), again, self.reserved, self.unreserved)

    def _steps(self) -> Iterator[Step]:
        for key, job in self.jobs.items():
            before, after = job.width, self.widths[key]
            if key in self.refused and job.phase is not JobPhase.REFUSED:
                yield Refuse(key, self.refused[key])
            elif before == 0 and after > 0:
                yield Admit(key, after)
            elif after == 0 and before > 0:
                yield Suspend(key, self._beneficiaries[key])
            elif after > before and job.spec.parts:
                yield Window(key, after)
            elif after != before:
                yield Scale(key, before, after, self._beneficiaries.get(key))


@dataclass(slots=True)
class Attempt:
    """Records whether the changes of a trial are kept; a trial is a block in which a draft is changed."""

    kept: bool = False

    def keep(self) -> None:
        """Keep the changes of the draft when the trial ends."""
        self.kept = True


def _releasing_first(step: Step) -> tuple[bool, JobKey]:
    releasing = isinstance(step, Suspend) or (isinstance(step, Scale) and step.after < step.before)
    return not releasing, step.job
