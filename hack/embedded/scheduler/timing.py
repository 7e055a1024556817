"""Times of the scheduler stand-in; the defaults are kube-scheduler's own. All in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerTiming:
    """Delays of one scheduler.

    `lease`, `renew_deadline`, `retry_period`: leader election. `backoff`, doubling up to `backoff_limit`: before a pod
    whose attempt failed is tried again. `unschedulable`: the most that a pod waits for news of the cluster.
    `extender`: its httpTimeout.
    """

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    backoff: float = 1.0
    backoff_limit: float = 10.0
    unschedulable: float = 300.0
    extender: float = 5.0
