"""The time that decisions may take which end in a refusal and are long: of gangs, and of pods of several containers.

They are asked for again at every event, while others wait for the lock.
"""

from device_plugin.core.errors import VgpuError

# Seconds that the refusals of one namespace may take at once, and how much of the time they may take for ever.
BURST, SHARE = 5.0, 0.1
# The same for all namespaces together. Each gets an equal part.
TOTAL_BURST, TOTAL_SHARE = 10.0, 0.25
# A namespace of many gangs has many bursts, but not more than this many times one.
MOST_BURSTS = 4.0
# Debts are written down again when they are at least this many seconds old.
TICK = 0.05


class LaterError(VgpuError):
    """No decision was made. kube-scheduler asks for the pod again soon by itself, as it does not after a refusal."""


class RefusalBudget:
    """Token buckets: BURST seconds of refusals for each namespace, refilled at SHARE seconds per second.

    A namespace's part is shared equally by those of its gangs that were refused; its pods of several containers count
    as one. All namespaces together get no more than TOTAL_SHARE of the time, in equal parts, so that ten of them do not
    take all of it, and none of them is shut out. Callers hold the view's lock.
    """

    def __init__(self) -> None:
        # Seconds that refusals took and that were not refilled yet, by namespace and gang.
        self._debts: dict[str, dict[str, float]] = {}
        self._at = 0.0

    def __len__(self) -> int:
        """How many gangs, or pods of several containers of a namespace, have debts."""
        return sum(map(len, self._debts.values()))

    def allows(self, namespace: str, gang: str, now: float) -> bool:
        """True if the gang, or with an empty name the namespace's pods of several containers, may be tried."""
        self._refill(now)
        debts = self._debts.get(namespace)
        if debts is None:
            return True
        burst = min(BURST, TOTAL_BURST / len(self._debts))
        return debts.get(gang, 0.0) <= burst / len(debts) and sum(debts.values()) <= MOST_BURSTS * burst

    def spend(self, namespace: str, gang: str, started: float, ended: float) -> None:
        """A refusal took the time from `started` to `ended`."""
        self._refill(ended)
        if ended > started:
            debts = self._debts.setdefault(namespace, {})
            debts[gang] = debts.get(gang, 0.0) + ended - started

    def _refill(self, now: float) -> None:
        elapsed = now - self._at
        if elapsed < TICK:
            return
        self._at = now
        part = elapsed * min(SHARE, TOTAL_SHARE / max(1, len(self._debts)))
        for namespace, debts in list(self._debts.items()):
            each = part / len(debts)
            left = {gang: debt - each for gang, debt in debts.items() if debt > each}
            if left:
                self._debts[namespace] = left
            else:
                del self._debts[namespace]
