"""Jobs for one round: the request of each job, and its present state."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import floor, inf

from device_plugin.core.app_types import DEFAULT_TYPE
from device_plugin.core.jobs.spec import Goal, Split
from device_plugin.core.node_constraints import ANYWHERE, NodeConstraints
from device_plugin.core.requests import PodRequest

JobKey = tuple[str, str]
"""Namespace and name of a Job."""
GroupKey = tuple[str, str]
"""Namespace and name of a group of Jobs."""

# The speed of a job of width n is taken as proportional to n ** EXPONENT until its own rates are known.
EXPONENT = 0.9
# Differences of cards, shares and powers below this are rounding errors.
EXACT = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as its author asks for it, checked: 1 <= least <= asked <= most replicas.

    Width: `asked` is the width that the Job has now. `widths` are the only allowed widths, ascending; any width is
    allowed if they are empty. `least` and `most` are among them, unless the author has removed the width of a running
    job. `width_owner` is the controller that decides the width in place of the engine (`JobSet`, `Kueue`). With a
    `goal` the width is found by sizing, from `least` to `most`.

    Cards: `request` is the request of one replica, with an empty `pod`. `cards` is the number of cards of one replica,
    where a slice counts as its larger share of a card; it may be 0. `nodes` are the constraints of the replicas.

    Queue: `user` shares the queue with other users; it is the namespace, because a Job does not name its author.
    Without `preempts`, no other job shrinks or stops for this job. `expected_seconds` is the declared duration at the
    author's width. `created` is in seconds of the caller's clock. `kueue` is true if Kueue decides when the job starts.
    `dropped` is the number (`gen`) of the record, a change of the width, that the author has ended; 0 for none.

    Stops: a `resumable` job consents to be stopped for a job of its priority. For `min_runtime` seconds after each
    start it gives nothing to such a job. If one of these two is None, the engine's rules decide it. A job `on_hold`
    neither runs nor waits, because a person wants it so.

    Sets: a workload whose replicas differ has `sets`. Each set is a job of its own for replicas that are equal, and its
    width is their number. The workload's `request` and `nodes` are those of its first set, and `cards` is the mean.

    Split: a job with `parts` has this number of sub-tasks, of which `least` to `most` run at a time. It begins once
    more than `parts` / `split_ratio` sub-tasks have room. A job with `split_of` is the sub-task `part` of that split.

    Group: a group of several Jobs is named by the Jobs (`joint`), a group of one Job by its pods alone. `group_size` is
    the number of its pods that start together. `group_jobs` is the number of Jobs that must exist before it starts.
    Both are 0 if they are not written.
    """

    key: JobKey
    uid: str = ""
    asked: int = 1
    least: int = 1
    most: int = 1
    widths: tuple[int, ...] = ()
    request: PodRequest
    nodes: NodeConstraints = ANYWHERE
    cards: float = 1.0
    queue: str = "default"
    user: str = ""
    group: str = ""
    group_size: int = 0
    group_jobs: int = 0
    joint: bool = False
    role: str = ""
    split: Split | None = None
    parts: int = 0
    split_ratio: float = inf
    barrier: bool = False
    split_of: str = ""
    part: int | None = None
    goal: Goal | None = None
    app_type: str = DEFAULT_TYPE
    priority: int = 0
    preempts: bool = True
    expected_seconds: float | None = None
    checkpoint_seconds: float = 0.0
    resumable: bool | None = None
    min_runtime: float | None = None
    on_hold: bool = False
    width_owner: str = ""
    kueue: bool = False
    dropped: int = 0
    created: float = 0.0
    sets: tuple["JobSpec", ...] = ()

    @property
    def group_key(self) -> GroupKey | None:
        """The group that the Job itself names; None if only its pods name a group, or nobody does."""
        return (self.key[0], self.group) if self.joint else None

    @property
    def least_cards(self) -> float:
        """The number of cards of the job with its least number of replicas."""
        return self.least * self.cards

    @property
    def alike(self) -> tuple["JobSpec", ...]:
        """The sets of equal replicas; the job itself if all of its replicas are equal."""
        return self.sets or (self,)

    @property
    def asks(self) -> object:
        """A key of the request and the nodes of all replicas: jobs with equal keys fit the same cards."""
        return self.request, self.nodes, tuple((each.request, each.nodes, each.asked) for each in self.sets)

    def dealt(self, first: int, count: int) -> Sequence[tuple["JobSpec", int]]:
        """The sets of equal replicas that the job's replicas from index `first` on belong to, for `count` replicas.

        Each set comes with the number of these replicas that belong to it.
        """
        if not self.sets:
            return ((self, count),)
        found = list[tuple[JobSpec, int]]()
        for each in self.sets:
            here = min(count, max(0, each.asked - first))
            first, count = max(0, first - each.asked), count - here
            if here:
                found.append((each, here))
        # More replicas than the sets have: pods that are replaced before their end.
        return [*found, (self.sets[-1], count)] if count else found

    @property
    def elastic(self) -> bool:
        """True if the job may run with another number of replicas (width) than it asks for."""
        return self.least < self.most and not self.parts and (self.goal is None or self.goal.bounded)

    def allows(self, width: int) -> bool:
        """True if the job's list of widths (numbers of replicas) has this width, or the job has no list."""
        return not self.widths or width in self.widths

    def next_width(self, width: int) -> int:
        """The least allowed width (number of replicas) above `width`; a number above `most` if there is none."""
        if not self.widths:
            return width + 1
        return next((each for each in self.widths if each > width), max(width, self.most) + 1)

    def width_at_most(self, count: int) -> int:
        """The largest allowed width (number of replicas) up to `count`; 0 if there is none."""
        if not self.widths:
            return count
        return max((each for each in self.widths if each <= count), default=0)

    def nearest_width(self, width: int) -> int:
        """The least allowed width (number of replicas) not below `width`; if all are below, the largest."""
        if not self.widths:
            return width
        return next((each for each in self.widths if each >= width), self.widths[-1])

    def widths_between(self, least: int, most: int) -> Sequence[int]:
        """The allowed widths (numbers of replicas) from `least` to `most`, ascending."""
        if not self.widths:
            return range(least, most + 1)
        return tuple(each for each in self.widths if least <= each <= most)

    @property
    def first_parts(self) -> int:
        """The number of sub-tasks that must have room before the split, the job of sub-tasks, begins."""
        return min(self.parts, floor(self.parts / self.split_ratio) + 1)


class Telling(Enum):
    """A grade of a program's reports: whether it has reported enough progress to compute its speed."""

    NOTHING = "nothing"
    LITTLE = "little"
    """The reported progress is too little to compute a rate."""
    ENOUGH = "enough"


UNKNOWN = "unknown"
"""The phase that an engine replica shows for a job that another replica plans."""


HELD = "is held by its author: `vgpu resume` lets it wait for cards again"
"""The reason why a held job does not run."""


class JobPhase(Enum):
    """The phases of a job between its creation and its end."""

    WAITING = "waiting"
    """The job has never run."""
    STARTING = "starting"
    """The job was admitted or has a promise, and not all of its replicas run yet."""
    RUNNING = "running"
    """All replicas of the job run."""
    RESIZING = "resizing"
    """The width of the job is being changed."""
    STOPPING = "stopping"
    """The job was suspended, and some of its replicas still hold cards."""
    STOPPED = "stopped"
    """The job ran before, and waits to go on."""
    HELD = "held"
    """The job does not run, and is not started before it is released."""
    REFUSED = "refused"
    """The job could not run even if nothing else did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of a job in one round.

    - `width` is the number of replicas that hold cards or have promised cards. A `held` job keeps its width, because of
      a controller above it or because an index has succeeded. `as_written`: it was started with the width that its
      author wrote. `goal_width` is the width that it needs for its goal; 0 if unknown.
    - Times: `since` is the start of the phase, `resized` the latest start or change of the width, and `started` the
      latest start. Before that start the job had been stopped for `stopped_s` seconds, 0 if it had never run.
    - Work: `attained` is its past service, in card-seconds. `remaining` is its remaining work, in seconds of one
      replica, from its progress or declared duration; None if unknown. `exponent` is the e in speed ~ width ** e.
      `telling` grades the progress that its program has reported.
    - `unanswered` counts the latest requests for a checkpoint that its program did not answer. `young` is the number of
      running sub-tasks that have just begun, and lose almost nothing if they are stopped.
    - A `displaced` job was stopped for another job. A stopped job is the `widest` if every other waiting job needs
      fewer cards.
    """

    spec: JobSpec
    phase: JobPhase = JobPhase.WAITING
    width: int = 0
    since: float = 0.0
    resized: float = -inf
    attained: float = 0.0
    remaining: float | None = None
    exponent: float = EXPONENT
    held: bool = False
    young: int = 0
    unanswered: int = 0
    started: float = -inf
    stopped_s: float = 0.0
    displaced: bool = False
    widest: bool = False
    as_written: bool = False
    telling: Telling = Telling.NOTHING
    goal_width: int = 0

    @property
    def queued(self) -> bool:
        """True if the job waits to be admitted. A refused job waits too, because nodes may come."""
        return self.phase in (JobPhase.WAITING, JobPhase.STOPPED, JobPhase.REFUSED)

    @property
    def running(self) -> bool:
        """True if all replicas run, and no change of the job is under way."""
        return self.phase is JobPhase.RUNNING

    @property
    def adjustable(self) -> bool:
        """True if the engine may change the job's width (number of replicas) now."""
        return self.running and self.spec.elastic and not self.held

    def seconds_left(self, width: int) -> float | None:
        """The seconds until the job's end with this number of replicas; None if its remaining work is not known."""
        if self.remaining is None:
            return None
        speed: float = width**self.exponent
        return self.remaining / speed

    @property
    def floor(self) -> int:
        """The least width (number of pods) to which the running job may shrink.

        A split (a job of sub-tasks) keeps the sub-tasks that have run for a while.
        """
        if self.spec.parts:
            return max(self.spec.least, self.width - self.young)
        return self.spec.least

    @property
    def extendable(self) -> bool:
        """True for a running split (a job of sub-tasks) that may run more sub-tasks at a time than it does now.

        Its next sub-task then waits for a card.
        """
        return self.running and self.spec.parts > 0 and not self.held and self.width < self.spec.most


def pods(count: int) -> str:
    """A number of pods in words: `1 pod`, `4 pods`."""
    return f"{count} pod" if count == 1 else f"{count} pods"
