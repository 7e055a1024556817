"""The search budget of one round, divided among the users whose jobs need room.

A tenant may write thousands of jobs with different requests, or pods for which a search takes long. A job that is not
searched for in one round, for lack of budget, is searched for in the next round.
"""

from collections import Counter
from collections.abc import Collection

from device_plugin.core.placement.fit import SearchBudget

# Most looks at cards in one round, about a second; and the looks that each user gets at least.
ROUND_LOOKS, USER_LOOKS = 200_000, 2_000


class Share(SearchBudget):
    """The looks (comparisons of a request with a card) that one search may take.

    `whole` is true if the search can never need more looks than it has.
    """

    def __init__(self, most: int, left: float) -> None:
        super().__init__(int(min(most, left)))
        self.whole = most <= left


class RoundBudget:
    """Divides `looks`, the comparisons of a request with a card in one round, equally among `users`.

    Without `users`, any user may take all looks. Each user gets at least USER_LOOKS; so with very many users the first
    to search may take all looks.
    """

    def __init__(self, users: Collection[str] = (), looks: float = ROUND_LOOKS) -> None:
        self._left = looks
        self._each = max(USER_LOOKS, looks / max(1, len(users)))
        self._used = Counter[str]()
        self.cut = False
        """True once a search was left out, or ended early, because its user had no looks left."""

    def of(self, user: str, most: int) -> Share | None:
        """The budget of one search that needs at most `most` looks (comparisons with a card); None if none is left."""
        if self.used_up(user):
            self.cut = True
            return None
        return Share(most, self._left_for(user))

    def used_up(self, user: str) -> bool:
        """True if the user has no looks (comparisons with a card) left."""
        return self._left_for(user) <= 0

    def _left_for(self, user: str) -> float:
        return min(self._left, self._each - self._used[user])

    def charge(self, user: str, share: Share) -> bool:
        """Count a search's looks (comparisons with a card); false if it may have ended early for lack of them."""
        self._left -= share.spent
        self._used[user] += share.spent
        ended = not share.left and not share.whole
        self.cut |= ended
        return not ended
