"""Delays of the scheduler stand-in in seconds; the defaults are kube-scheduler's own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerTiming:
    """Delays of one scheduler.

    `lease`, `renew_deadline`, `retry_period`: leader election. `backoff`, doubled up to `backoff_limit`: until a pod is
    tried again after a failed attempt. `unschedulable`: longest time that a pod waits for a change of the cluster.
    `extender`: the extender's httpTimeout.
    """

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    backoff: float = 1.0
    backoff_limit: float = 10.0
    unschedulable: float = 300.0
    extender: float = 5.0
