"""A stand-in for the Job controller, and for the garbage collector as far as it concerns the pods of Jobs.

Model: k8s.io/kubernetes 1.36 pkg/controller/job, reduced to what our programs meet. Not there: deadlines, limits of
failures for each index (as if they were never reached), success policies.
"""

from hack.embedded.jobs.controller import JobController, JobTiming

__all__ = ["JobController", "JobTiming"]
