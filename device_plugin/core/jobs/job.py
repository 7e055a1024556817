"""Jobs as one round sees them: what a job asks for, and where it stands now."""

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

# How the speed of a job grows with its width n, n ** EXPONENT, until its own rates are known.
EXPONENT = 0.9
# Cards, shares of them, and widths by powers are added up: less than this is nothing.
EXACT = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as its author asks for it, checked: 1 <= least <= asked <= most replicas.

    `widths` are the only numbers of replicas that it may run with, ascending; it may have any if they are
    empty. Its bounds are among them, except while a running job keeps a width that its author has since left out.
    `request` is that of one replica, its `pod` empty, and `cards` how many cards it takes, a slice as the larger of
    its shares of a card; a job without cards is queued too. Its replicas go to `nodes` only. `asked` is the width
    that the Job has now. `user` is the unit that shares a queue: the namespace, because a Job does not name its
    author. `expected_seconds` is the declared duration at the width that the author asked for. Without `preempts` the
    job neither shrinks nor stops others. `created` is in seconds of the caller's clock.

    A job with `parts` is split into that number of sub-tasks, of which `least` to `most` run at a time; it begins once
    more than `parts` divided by `split_ratio` have room. One with `split_of` is sub-task `part` of the split of that
    name. The width of a job with a `goal` is still to be found, from `least` to `most`. `group_size` is how many pods
    of the group start together, 0 if the pods do not say, and `group_jobs` how many Jobs it has until it has started, 0
    if the Job does not say. A group of several Jobs is named by the Jobs (`joint`), that of one Job by its pods alone.
    `width_owner` is what decides the width in place of the engine (`JobSet`, `Kueue`); `kueue` is true if Kueue decides
    when the job starts. `dropped` is the number of the record that its author has ended, 0 for none.

    A `resumable` job consents to be stopped for a job of its priority, and for `min_runtime` seconds after each start
    it gives nothing to one; where either is None the engine's rules say.
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
    width_owner: str = ""
    kueue: bool = False
    dropped: int = 0
    created: float = 0.0

    @property
    def elastic(self) -> bool:
        """True if the width may differ from the width asked for."""
        return self.least < self.most and not self.parts and (self.goal is None or self.goal.bounded)

    def allows(self, width: int) -> bool:
        """True if the job may run with this number of replicas, as far as its widths decide it."""
        return not self.widths or width in self.widths

    def next_width(self, width: int) -> int:
        """The least allowed width above `width`; above `most` if there is none."""
        if not self.widths:
            return width + 1
        return next((each for each in self.widths if each > width), max(width, self.most) + 1)

    def width_at_most(self, count: int) -> int:
        """The largest allowed width up to `count`; 0 if there is none."""
        if not self.widths:
            return count
        return max((each for each in self.widths if each <= count), default=0)

    def nearest_width(self, width: int) -> int:
        """The width that counts where `width` is written: the least allowed width not below it, else the largest."""
        if not self.widths:
            return width
        return next((each for each in self.widths if each >= width), self.widths[-1])

    def widths_between(self, least: int, most: int) -> Sequence[int]:
        """The allowed widths from `least` to `most`, ascending."""
        if not self.widths:
            return range(least, most + 1)
        return tuple(each for each in self.widths if least <= each <= most)

    @property
    def first_parts(self) -> int:
        """The number of sub-tasks of a split for which there must be room before it begins."""
        return min(self.parts, floor(self.parts / self.split_ratio) + 1)


class Telling(Enum):
    """The amount of progress that a program has reported."""

    NOTHING = "nothing"
    LITTLE = "little"
    """Too little to be measured."""
    ENOUGH = "enough"


UNKNOWN = "unknown"
"""A replica that does not plan a job reports this in place of the job's phase."""


class JobPhase(Enum):
    """The phases of a job between its creation and its end."""

    WAITING = "waiting"
    """It has never run."""
    STARTING = "starting"
    """It was admitted, or cards are promised to it; not all of its replicas run yet."""
    RUNNING = "running"
    """All of its replicas run."""
    RESIZING = "resizing"
    """Its width is being changed."""
    STOPPING = "stopping"
    """It was suspended, and some of its replicas still hold cards."""
    STOPPED = "stopped"
    """It ran before, and waits to go on."""
    REFUSED = "refused"
    """It could not run even if nothing else did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job at the time of one round.

    `width` is the number of replicas that hold cards, or for which cards are promised; `since` is the time at which the
    phase began, and `resized` that of the last start or change of the width. `attained` is the service that it has had,
    in card-seconds. `remaining` is the work left, in seconds of one replica, as far as it is known from the job's
    progress or its declared duration. `exponent` is that of its speed in its width. `young` of its running sub-tasks
    have just begun: they lose almost nothing if they begin again. A job that is `held` keeps its width, for a reason of
    its owner's: a controller above it, or an index that has succeeded. `unanswered` is how many requests for a
    checkpoint in a row its program has let pass. A running job is `as_written` if it was started with the width that
    its author wrote, and `telling` says how much of its progress its program has reported. `goal_width` is the width
    that it needs for its goal, 0 if that is not known.

    `started` is the time of the last start, before which the job had been stopped for `stopped_s` seconds, 0 if it had
    never run. A stopped job that is `displaced` was stopped for another job. It is the `widest` if every other waiting
    job needs fewer cards.
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
        """True if the job waits to be admitted; a refused one does, because nodes may come."""
        return self.phase in (JobPhase.WAITING, JobPhase.STOPPED, JobPhase.REFUSED)

    @property
    def running(self) -> bool:
        """True if all of its replicas run and nothing of it is under way."""
        return self.phase is JobPhase.RUNNING

    @property
    def adjustable(self) -> bool:
        """True if its width may be changed now."""
        return self.running and self.spec.elastic and not self.held

    def seconds_left(self, width: int) -> float | None:
        """The seconds until its end with this width; None if the work that it has left is not known."""
        if self.remaining is None:
            return None
        speed: float = width**self.exponent
        return self.remaining / speed

    @property
    def floor(self) -> int:
        """The least width that the running job may be left with: a split keeps the sub-tasks that began a while ago."""
        if self.spec.parts:
            return max(self.spec.least, self.width - self.young)
        return self.spec.least

    @property
    def extendable(self) -> bool:
        """True for a split that runs fewer sub-tasks at a time than it may: the next one waits for a card."""
        return self.running and self.spec.parts > 0 and not self.held and self.width < self.spec.most


def pods(count: int) -> str:
    """A number of pods in words: `1 pod`, `4 pods`."""
    return f"{count} pod" if count == 1 else f"{count} pods"
