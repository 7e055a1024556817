"""Jobs as one round sees them: what a job asks for, and where it stands now."""

from dataclasses import dataclass
from enum import Enum
from math import inf

from device_plugin.core.requests import PodRequest

JobKey = tuple[str, str]
"""Namespace and name of a Job."""

# How the speed of a job grows with its width n, n ** EXPONENT, until its own rates are known.
EXPONENT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What the author of a job asks for, checked: 1 <= least <= asked <= most replicas.

    `request` is that of one replica, its `pod` empty, and `cards` how many cards it takes, a slice as the larger of
    its shares of a card. `expected_seconds` is the declared duration at the width asked for. Without `preempts` the
    job neither shrinks nor stops others. `created` is in seconds of the caller's clock.
    """

    key: JobKey
    uid: str = ""
    asked: int = 1
    least: int = 1
    most: int = 1
    request: PodRequest
    cards: float = 1.0
    queue: str = "default"
    user: str = ""
    group: str = ""
    role: str = ""
    priority: int = 0
    preempts: bool = True
    expected_seconds: float | None = None
    checkpoint_seconds: float = 0.0
    created: float = 0.0

    @property
    def elastic(self) -> bool:
        """True if the width may differ from the width asked for."""
        return self.least < self.most


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
    """It cannot run as it is written, whatever becomes free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job at the time of one round.

    `width` is the number of replicas that hold cards, or for which cards are promised; `since` is the time at which
    the phase began, and `resized` that of the last start or change of the width. `attained` is the service that it has
    had, in card-seconds. `remaining` is the work left, in seconds of one replica, as far as it is known from the job's
    progress or its declared duration. `exponent` is that of its speed in its width. A job that is `held` keeps its
    width, for a reason of its owner's: a controller above it, or an index that has succeeded.
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

    @property
    def queued(self) -> bool:
        """True if the job waits to be admitted."""
        return self.phase in (JobPhase.WAITING, JobPhase.STOPPED)

    @property
    def running(self) -> bool:
        """True if all of its replicas run and nothing of it is under way."""
        return self.phase is JobPhase.RUNNING

    @property
    def adjustable(self) -> bool:
        """True if its width may be changed now."""
        return self.running and self.spec.elastic and not self.held
