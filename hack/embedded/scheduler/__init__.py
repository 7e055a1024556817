"""A stand-in for kube-scheduler: its Lease, its queue, its resource fit, its calls to one extender.

Model: k8s.io/kubernetes 1.36 pkg/scheduler (schedule_one.go, extender.go, backend/queue) and client-go leaderelection,
reduced to the behaviour that an extender can see.
"""

from hack.embedded.scheduler.standin import SchedulerStandIn
from hack.embedded.scheduler.timing import SchedulerTiming

__all__ = ["SchedulerStandIn", "SchedulerTiming"]
