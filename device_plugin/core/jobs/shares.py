"""Shares of queues: nobody takes all cards by refusing consent.

Jobs that may not be stopped for their equals hold at most their queue's share of the cards, while jobs of other queues
wait within theirs. The share follows the weights of the queues that have jobs now.
"""

from math import inf

from device_plugin.core.jobs.job import EXACT, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, priority
from device_plugin.core.jobs.rules import Rules


class Shares:
    """The cards that each queue holds for good in a draft, and the queues whose jobs wait."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        self._several = len(draft.cards_of) > 1
        # By queue: cards of jobs that may not be stopped. By queue and priority: the waiting jobs, and the fewest cards
        # that one of them needs.
        self._held: dict[str, float] = {}
        self._waiting: dict[tuple[str, int], int] = {}
        self._least: dict[tuple[str, int], float] = {}
        for job in draft.jobs.values() if self._several else ():
            queue = job.spec.queue
            if draft.width(job):
                self._held[queue] = self._held.get(queue, 0.0) + self._fixed(job)
            elif job.queued and job.spec.key not in draft.refused:
                line = queue, job.spec.priority
                self._waiting[line] = self._waiting.get(line, 0) + 1
                self._least[line] = min(self._least.get(line, inf), job.spec.least * job.spec.cards)
        queues = {*self._held, *(queue for queue, _ in self._waiting)}
        weights = {queue: rules.weight(queue) for queue in queues}
        cards = draft.room.cards() * rules.use if self._several else 0.0
        self._share = {queue: cards * weight / sum(weights.values()) for queue, weight in weights.items()}

    def _fixed(self, job: JobState) -> float:
        """The cards that the job holds for good: it may not be stopped, or not for longer than a turn."""
        rules, spec = self._rules, job.spec
        willing = rules.may_stop(spec) and rules.min_runtime(spec) <= rules.quantum_s
        return 0.0 if willing or spec.parts else spec.least * spec.cards

    def admitted(self, unit: Unit) -> None:
        """Count a unit that was admitted."""
        for job in unit if self._several else ():
            queue, line = job.spec.queue, (job.spec.queue, job.spec.priority)
            self._held[queue] = self._held.get(queue, 0.0) + self._fixed(job)
            self._waiting[line] = self._waiting.get(line, 0) - (not job.spec.parts)

    def exceeded(self, unit: Unit) -> bool:
        """True if the unit would hold more for good than its queue's share, while others wait within theirs.

        Others of a lower priority do not count. A job that needs more than the share by itself may start while its
        queue holds nothing else.
        """
        more = sum(map(self._fixed, unit)) if self._several else 0.0
        queue = unit[0].spec.queue
        held = self._held.get(queue, 0.0)
        if more <= EXACT or held <= EXACT or held + more <= self._share[queue] + EXACT:
            return False
        cards = self._draft.cards_of
        return any(
            count > 0 and cards.get(other, 0.0) + self._least[other, level] <= self._share[other] + EXACT
            for (other, level), count in self._waiting.items() if other != queue and level >= priority(unit)
        )  # fmt: skip
