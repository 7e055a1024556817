"""Lasting findings: a finding counts once it has lasted for some seconds, because what a check reads may lag behind."""

from collections.abc import Callable, Collection, Hashable
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Lasting(Generic[K]):
    """The findings of one check, by key; a finding counts only once it has lasted.

    A finding begins to count once it was there for `begin` seconds without a break, and stops once it was away for
    `end` seconds. `clock` is monotonic, in seconds. One thread notes findings; any thread may ask which ones count.
    """

    def __init__(self, clock: Callable[[], float], begin: float, end: float = 0.0) -> None:
        self._clock = clock
        self._begin = begin
        self._end = end
        self._counting: frozenset[K] = frozenset()
        # By key: the time since which the finding is there and does not count, or counts and is away.
        self._since: dict[K, float] = {}

    def __contains__(self, key: K) -> bool:
        """True if the finding counts: it has lasted for `begin` seconds, and was not away for `end` seconds since."""
        return key in self._counting

    def unsure(self, key: K) -> bool:
        """True if the finding with this key is there and does not count yet, or is away and still counts."""
        return key in self._since

    def note(self, key: K, *, found: bool) -> bool:
        """Note whether a finding is there now; returns true if this changes whether it counts.

        The caller then reports the change.
        """
        counts = key in self._counting
        if found == counts:
            self._since.pop(key, None)
            return False
        now = self._clock()
        if now - self._since.setdefault(key, now) < (self._end if counts else self._begin):
            return False
        del self._since[key]
        self._counting ^= {key}
        return True

    def note_all(self, found: AbstractSet[K]) -> AbstractSet[K]:
        """Note that these findings are there now and all others are not; returns those that count."""
        for key in found | self._counting | self._since.keys():
            self.note(key, found=key in found)
        return self._counting

    def keep(self, keys: Collection[K]) -> None:
        """Forget the findings whose keys are not in `keys`."""
        self._counting &= frozenset(keys)
        self._since = {key: since for key, since in self._since.items() if key in keys}
