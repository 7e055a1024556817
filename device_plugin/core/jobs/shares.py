"""Shares of queues: a queue cannot take all cards with jobs that refuse to be stopped.

Jobs that may not be stopped for jobs of their priority hold at most their queue's share of the cards, while another
queue waits that holds less than its own share. The cards are divided by the weights of the queues that have jobs.
"""

from copy import copy
from math import inf

from device_plugin.core.jobs.job import EXACT, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, priority
from device_plugin.core.jobs.rules import Rules


class Shares:
    """Decides if a queue would hold more than its share of the cards with jobs that may not be stopped.

    It counts, in a draft (an unfinished plan), the cards of these jobs and the waiting jobs of each queue.
    """

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        self._several = len(draft.cards_of) > 1
        # `_held`, by queue: cards of jobs that may not be stopped. By queue and priority: `_waiting` counts the waiting
        # jobs, and `_least` is the fewest cards that one of them needs.
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
                self._least[line] = min(self._least.get(line, inf), job.spec.least_cards)
        queues = {*self._held, *(queue for queue, _ in self._waiting)}
        weights = {queue: rules.weight(queue) for queue in queues}
        cards = draft.room.cards() * rules.use if self._several else 0.0
        self._share = {queue: cards * weight / sum(weights.values()) for queue, weight in weights.items()}

    def _fixed(self, job: JobState) -> float:
        """The cards of the job's least width, if no equal job may take them after `quantum_s` seconds; else 0.

        An equal job is a job of the same priority. Also 0 for a split (a job of sub-tasks).
        """
        rules, spec = self._rules, job.spec
        willing = rules.may_stop(spec) and rules.min_runtime(spec) <= rules.quantum_s
        return 0.0 if willing or spec.parts else spec.least_cards

    def admitted(self, unit: Unit) -> None:
        """Count jobs (a unit) that were admitted: from now on their queue has more cards and fewer waiting jobs."""
        for job in unit if self._several else ():
            queue, line = job.spec.queue, (job.spec.queue, job.spec.priority)
            self._held[queue] = self._held.get(queue, 0.0) + self._fixed(job)
            self._waiting[line] = self._waiting.get(line, 0) - (not job.spec.parts)

    def after(self, unit: Unit) -> "Shares":
        """A copy of the shares in which the unit (jobs that start together) is counted as admitted."""
        shares = copy(self)
        shares._held, shares._waiting = dict(self._held), dict(self._waiting)
        shares.admitted(unit)
        return shares

    def exceeded(self, unit: Unit) -> bool:
        """True if the unit (jobs that start together) must leave cards to other queues that wait.

        It must if its queue, with the unit, would hold more than the queue's share of the cards with jobs that may not
        be stopped.

        Another queue counts as waiting if one of its waiting jobs, of the unit's priority or higher, would stay within
        the share of that queue. The unit may start even if it alone needs more than its queue's share, while no other
        job of its queue that may not be stopped has cards.
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
