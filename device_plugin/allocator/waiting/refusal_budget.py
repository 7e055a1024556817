"""The refusal budget: limits the time spent on refusing gangs and pods of several containers, which takes long.

kube-scheduler asks for such pods again at every event, and other decisions wait for the lock meanwhile.
"""

from collections.abc import Callable
from typing import TypeVar

from device_plugin.core.errors import VgpuError
from device_plugin.core.placement import Refusal, Refused
from device_plugin.core.requests import PodRequest

# Seconds that refusals of one namespace may take in a burst, and the share of time that they may take in the long run.
BURST, SHARE = 5.0, 0.1
# The seconds and the share for all namespaces together. Each gets an equal part.
TOTAL_BURST, TOTAL_SHARE = 10.0, 0.25
# The most bursts of one namespace, however many gangs it has.
MOST_BURSTS = 4.0
# Seconds between two refills.
TICK = 0.05
Answer = TypeVar("Answer")


class LaterError(VgpuError):
    """No decision was made, for lack of time. After this error kube-scheduler tries the pod again soon by itself.

    Cure: wait; if it lasts for minutes, many pods of the namespace ask for more than any card can give.
    """


class RefusalBudget:
    """Limits the time of refusals: each namespace has BURST seconds, refilled at SHARE seconds per second.

    The refused gangs of a namespace share its budget equally; its pods of several containers count as one gang. All
    namespaces together get at most TOTAL_SHARE of the time, in equal parts. Callers hold the cluster view's lock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # By namespace and gang: seconds that refusals took, and that are not refilled yet.
        self._debts: dict[str, dict[str, float]] = {}
        self._at = 0.0

    def __len__(self) -> int:
        """Number of debts. A debt is the time that refusals of one gang took, as far as it is not refilled yet.

        All pods of several containers in one namespace count as one gang.
        """
        return sum(map(len, self._debts.values()))

    def decided(self, namespace: str, request: PodRequest, decide: Callable[[], Answer]) -> Answer:
        """Call `decide` and return its answer. If the answer is None or a refusal, the decision's time is charged.

        Decisions of single pods with one container are short, and never charged. Raises LaterError, without a decision,
        if earlier refusals have taken too long.
        """
        if request.gang is None and len(request.containers) < 2:
            return decide()
        gang, started = request.gang.group if request.gang is not None else "", self._clock()
        if not self._allows(namespace, gang, started):
            several = f"pods of several containers in {namespace} wait for their turn"
            waits = f"group {gang} waits for its turn" if gang else several
            raise LaterError(f"{waits} to be tried; kube-scheduler tries again by itself")
        answer = decide()
        if answer is None or isinstance(answer, Refused | Refusal):
            self._charge(namespace, gang, self._clock() - started)
        return answer

    def _allows(self, namespace: str, gang: str, now: float) -> bool:
        """True if a gang of the namespace may be tried now.

        An empty name stands for the pods with more than one container: all of them in the namespace count as one gang.
        """
        self._refill(now)
        debts = self._debts.get(namespace)
        if debts is None:
            return True
        burst = min(BURST, TOTAL_BURST / len(self._debts))
        return debts.get(gang, 0.0) <= burst / len(debts) and sum(debts.values()) <= MOST_BURSTS * burst

    def _charge(self, namespace: str, gang: str, seconds: float) -> None:
        """Charge a gang for a refusal that took `seconds`; an empty name means the pods of several containers."""
        self._refill(self._clock())
        if seconds > 0:
            debts = self._debts.setdefault(namespace, {})
            debts[gang] = debts.get(gang, 0.0) + seconds

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
