"""The search budget of one round, shared out over the users for whose jobs room is sought.

A tenant may write thousands of jobs that all ask for something else, or pods of which it takes long to see that they
fit no node. Jobs that are not looked at in one round are looked at in the next.
"""

from collections import Counter
from collections.abc import Collection

from device_plugin.core.placement.fit import SearchBudget

# Looks at cards in one round, about a second; and those that a user may take, however many others there are.
ROUND_LOOKS, USER_LOOKS = 200_000, 2_000


class Share(SearchBudget):
    """The budget of one search; it is `whole` if no other search has left it less."""

    def __init__(self, most: int, left: float) -> None:
        super().__init__(int(min(most, left)))
        self.whole = most <= left


class RoundBudget:
    """At most `looks` looks at cards, shared out equally over the `users`; without any, each may take all."""

    def __init__(self, users: Collection[str] = (), looks: float = ROUND_LOOKS) -> None:
        self._left = looks
        self._each = max(USER_LOOKS, looks / max(1, len(users)))
        self._used = Counter[str]()
        self.cut = False
        """True once a search was left out, or ended early, because its user had no looks left."""

    def of(self, user: str, most: int) -> Share | None:
        """The budget of one search for a user, of `most` looks; None if the user has used up his share."""
        if self.used_up(user):
            self.cut = True
            return None
        return Share(most, self._left_for(user))

    def used_up(self, user: str) -> bool:
        """True if the user has no looks left."""
        return self._left_for(user) <= 0

    def _left_for(self, user: str) -> float:
        return min(self._left, self._each - self._used[user])

    def charge(self, user: str, share: Share) -> bool:
        """Count the looks that a search took; false if it may have ended early because the user had no more."""
        self._left -= share.spent
        self._used[user] += share.spent
        ended = not share.left and not share.whole
        self.cut |= ended
        return not ended
