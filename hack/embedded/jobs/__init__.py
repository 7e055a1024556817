"""A stand-in for the Job controller, and for the garbage collector of Jobs' pods.

Model: k8s.io/kubernetes 1.36 pkg/controller/job, reduced to the features that our programs use. Missing: deadlines,
success policies, and limits on the failures of an index (they are ignored).
"""

from hack.embedded.jobs.controller import JobController, JobTiming

__all__ = ["JobController", "JobTiming"]
