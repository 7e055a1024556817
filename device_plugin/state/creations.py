"""The reasons why pods of Jobs are not created: a quota or an admission policy refuses them.

The Job does not show the reason; the Job controller writes it into an event. Events are read and not watched, and only
for Jobs that have lacked pods for LACKING_SECONDS. For a workload of another kind no event is read: after MADE_SECONDS
without pods, the reason is a text that names the kind.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from device_plugin.core.contract.resize import MAX_REFUSAL
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.timestamps import seconds
from device_plugin.core.workload_kinds import JOB
from device_plugin.kube.api import FAILED_CREATIONS, Api, Where
from device_plugin.kube.errors import ApiError
from device_plugin.state.managed import Managed

log = logging.getLogger(__name__)

# Seconds for which a Job lacks pods before its events are read: the Job controller needs time to create pods.
LACKING_SECONDS = 3.0
# Seconds between two reads of the events of a Job that still lacks pods: doubled each time.
FIRST_WAIT, LONGEST_WAIT = 5.0, 300.0
# Seconds that the controller of another kind than Job has to make the pods. Events about them are not read: those of a
# JobSet's pods are on the Jobs that it makes.
MADE_SECONDS = 60.0
# Reads at one time. Each may take as long as the API server may be silent.
MOST_READS = 4
# Seconds by which the Job controller's clock may be behind ours. A Job with refused pods pauses for longer than that,
# so an event of before the pause does not count as new.
SKEW_SECONDS = 30.0
_QUOTA = re.compile(r"(?:exceeded|failed) quota: ")
_BEGINNING = "Error creating: "


@dataclass(slots=True)
class _Lacking:
    """A Job that lacks pods since the time `since`, in seconds since 1970; `gen` is the number of its latest change.

    Its events are read next at `read_at`, on the monotonic clock, then after `wait` seconds; `why` is the reason that
    was read.
    """

    gen: int
    since: float
    read_at: float
    wait: float = FIRST_WAIT
    why: str = ""


class FailedCreations:
    """Reads the reasons why the API server refuses pods of Jobs. One thread calls `look`.

    `clock` is a monotonic clock, in seconds; `wall` returns the seconds since 1970, as the times of events are.
    """

    def __init__(self, api: Api, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._wall = wall
        self._lacking: dict[str, _Lacking] = {}
        self.next = inf
        """The time on the clock at which `look` must be called again even if nothing has changed."""

    def look(self, jobs: Iterable[Managed]) -> Mapping[JobKey, str]:
        """Read the events that are due, of at most MOST_READS Jobs; returns by Job why its pods are refused.

        Only known reasons are returned. A reason is kept while its Job lacks pods. `next` is set to the time of the
        next read.
        """
        now, found = self._clock(), dict[str, _Lacking]()
        lacking = [managed for managed in jobs if managed.lacks]
        for managed in lacking:
            gen = managed.record.gen if managed.record is not None else 0
            known = self._lacking.get(managed.job.uid)
            if known is None or known.gen != gen:
                wait = LACKING_SECONDS if managed.job.kind is JOB else MADE_SECONDS
                known = _Lacking(gen, self._wall(), now + wait)
            found[managed.job.uid] = known
        self._lacking = found
        due = [managed for managed in lacking if found[managed.job.uid].read_at <= now]
        for managed in sorted(due, key=lambda each: found[each.job.uid].read_at)[:MOST_READS]:
            self._read(managed, found[managed.job.uid], now)
        self.next = min((each.read_at for each in found.values()), default=inf)
        return {each.key: found[each.job.uid].why for each in lacking if found[each.job.uid].why}

    def _read(self, managed: Managed, lacking: _Lacking, now: float) -> None:
        job = managed.job
        if job.kind is not JOB:
            lacking.read_at = now + LONGEST_WAIT
            lacking.why = (
                f"its controller has made {managed.created} of {managed.due} in {MADE_SECONDS:.0f} s: see the"
                f" {job.kind.name}'s events"
            )
            return
        lacking.read_at, lacking.wait = now + lacking.wait, min(2 * lacking.wait, LONGEST_WAIT)
        where = Where(job.namespace, fields=f"involvedObject.uid={job.uid},reason=FailedCreate")
        try:
            events = self._api.list(FAILED_CREATIONS, where).items
        except ApiError as error:
            log.warning("events of job %s/%s cannot be read: %s", *managed.key, error)
            return
        # An old event does not count: a Job may lack a pod for another reason now, such as a failed pod's replacement.
        since = lacking.since - SKEW_SECONDS
        new = [(at, event.message) for event in events if (at := seconds(event.at, 0.0)) >= since]
        if new:
            lacking.why = refusal(max(new)[1])


def refusal(message: str) -> str:
    """The text of the API server's `message`, from the words about a quota on, if any; at most MAX_REFUSAL characters.

    Unprintable characters become spaces, because tenants write part of the message.
    """
    found = _QUOTA.search(message)
    text = message[found.start() :] if found else message.removeprefix(_BEGINNING)
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:MAX_REFUSAL]).strip()
    return shown or "no reason was given"
