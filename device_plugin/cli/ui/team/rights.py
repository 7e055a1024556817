"""Asks the API server for the rights of each person, and remembers the answers for a short time.

A person who may list the pods and the Jobs of all namespaces costs two questions. For any other person, there is a
question about each namespace with entries. A right that is not known yet, or that was last confirmed more than
STALE_SECONDS ago, does not count.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from device_plugin.cli.ui.spaces import UNKNOWN, Space, Spaces
from device_plugin.cli.ui.team.visitor import Person, Sight
from device_plugin.core.token_bucket import TokenBucket
from device_plugin.kube.errors import ApiError

# Seconds after which an answer is asked for again: a permission soon, because it may have been withdrawn.
ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 300.0
# Seconds for which a permission counts while it cannot be confirmed.
STALE_SECONDS = 180.0
# Most questions for one look at the rights of a person, and of all persons in a second.
MOST_ASKED, ASKED_PER_SECOND, BURST = 60, 100.0, 400.0
# Questions of the burst that are kept for confirming permissions: persons with thousands of namespaces to ask about
# must not make others lose what they may see.
KEPT = 200.0
# Most answers that are remembered, of all persons together, at 100 bytes each: 100 persons with 4,000 namespaces.
MOST_ANSWERS = 1_000_000
_EVERYWHERE = Space("pods", ""), Space("jobs", "")


class _Answer:
    """The latest answer about a space (pods or Jobs of a namespace), its time, and the time of the latest question."""

    __slots__ = ("allowed", "asked", "at")

    def __init__(self, at: float) -> None:
        self.allowed = False
        self.at = self.asked = at

    def is_due(self, now: float) -> bool:
        """True if the answer must be asked for again."""
        return now - self.asked >= (ALLOWED_SECONDS if self.allowed else DENIED_SECONDS)

    def counts(self, now: float) -> bool:
        """True if the answer permits to see the space (pods or Jobs of a namespace), and is not too old."""
        return self.allowed and now - self.at < STALE_SECONDS


class Rights:
    """Holds the rights of persons: the spaces (pods or Jobs of a namespace) that each may list. Any thread may use it.

    `may` asks the API server whether a person may list a space.
    """

    def __init__(self, may: Callable[[Person, Space], bool], clock: Callable[[], float]) -> None:
        self._may = may
        self._clock = clock
        self._lock = threading.Lock()
        self._rate = TokenBucket(ASKED_PER_SECOND, BURST, clock)
        # The person who was asked about last is at the end.
        self._known: OrderedDict[Person, dict[Space, _Answer]] = OrderedDict()
        self._answers = 0

    def sight(self, person: Person, spaces: Spaces) -> Sight:
        """Returns which of these spaces (pods or Jobs of a namespace) the person may see.

        The API server is asked about at most MOST_ASKED of them.
        """
        for space in self._due(person, _EVERYWHERE):
            self._ask(person, space)
        if len(self._seen(person, _EVERYWHERE)) == len(_EVERYWHERE):
            return Sight(everything=True, spaces=frozenset())
        wanted = spaces - UNKNOWN
        for space in self._due(person, wanted)[:MOST_ASKED]:
            self._ask(person, space)
        return Sight(everything=False, spaces=self._seen(person, wanted))

    def forget(self, person: Person) -> None:
        """Forget the answers about a person."""
        with self._lock:
            self._answers -= len(self._known.pop(person, ()))

    def _due(self, person: Person, spaces: Iterable[Space]) -> list[Space]:
        """Returns the spaces (pods or Jobs of a namespace) to ask about.

        First come permissions to confirm, then spaces without an answer, then old refusals.
        """
        ranks = dict[Space, int]()
        with self._lock:
            known, now = self._answers_of(person), self._clock()
            for space in spaces:
                answer = known.get(space)
                if answer is None:
                    ranks[space] = 1
                elif answer.is_due(now):
                    ranks[space] = 0 if answer.allowed else 2
        return sorted(ranks, key=lambda space: (ranks[space], space))

    def _seen(self, person: Person, spaces: Iterable[Space]) -> Spaces:
        with self._lock:
            known, now = self._answers_of(person), self._clock()
            return frozenset(space for space in spaces if space in known and known[space].counts(now))

    def _ask(self, person: Person, space: Space) -> None:
        """Ask the API server about a space (pods or Jobs of a namespace), and remember the answer.

        It does not ask if too many questions were asked in the last seconds.

        Beyond MOST_ANSWERS, the answers about persons who were not asked about for the longest time are forgotten.
        """
        with self._lock:
            now = self._clock()
            answer = self._answers_of(person).get(space)
            if not self._rate.take(0.0 if answer and answer.allowed else KEPT):
                return
            if answer:
                answer.asked = now
        try:
            allowed = self._may(person, space)
        except ApiError:
            # A permission counts until it is stale; what was never answered is asked for at the next look.
            return
        with self._lock:
            known = self._answers_of(person)
            if space not in known:
                known[space] = _Answer(now)
                self._answers += 1
            made = known[space]
            made.allowed, made.at, made.asked = allowed, now, now
            while self._answers > MOST_ANSWERS and len(self._known) > 1:
                self._answers -= len(self._known.popitem(last=False)[1])

    def _answers_of(self, person: Person) -> dict[Space, _Answer]:
        found = self._known.setdefault(person, {})
        self._known.move_to_end(person)
        return found
