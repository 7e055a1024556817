"""Whose refusals take everybody's time: some pods take long to be refused, and are asked for again at every event."""

from dataclasses import dataclass

from device_plugin.core.errors import VgpuError

# What is refused may take so many seconds in all, and gets back so much of the time: a pod that waits for the next of a
# few events has them, and one that nothing helps stops nobody.
BURST, SHARE = 5.0, 0.1
# Beyond so many namespaces those that owe nothing any more are forgotten.
NAMESPACES = 1024


class LaterError(VgpuError):
    """It was not looked at. kube-scheduler asks for the pod again soon by itself, as it does not for one refused."""


@dataclass(frozen=True, slots=True)
class Debt:
    """So many seconds that refusals had taken at the time `at`."""

    seconds: float = 0.0
    at: float = 0.0

    def left(self, now: float, share: float = SHARE) -> float:
        """What is owed still, if `share` of the time is given back."""
        return max(0.0, self.seconds - share * (now - self.at))


class Shares:
    """The time that refusals of each namespace have taken, in seconds. Callers hold the state's lock."""

    def __init__(self) -> None:
        self._debts: dict[str, Debt] = {}

    def check(self, namespace: str, now: float) -> None:
        """Raise LaterError while it has taken too much."""
        if self._owed(namespace, now) > BURST:
            raise LaterError(
                f"pods of several containers in {namespace} wait for their turn to be tried; kube-scheduler"
                " tries again by itself"
            )

    def refused(self, namespace: str, started: float, ended: float) -> None:
        """A refusal was found from `started` to `ended`."""
        if len(self._debts) >= NAMESPACES:
            self._debts = {name: debt for name, debt in self._debts.items() if debt.left(ended) > 0}
        self._debts[namespace] = Debt(self._owed(namespace, started) + ended - started, ended)

    def _owed(self, namespace: str, now: float) -> float:
        return self._debts.get(namespace, Debt()).left(now)
