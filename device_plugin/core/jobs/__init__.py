"""Job policies: decide which training jobs run now, and how wide, as a function of time, jobs and room.

Words of this package:
- A unit is the jobs that are admitted together: the jobs of a group, a single job, or a sub-task of a split.
- A split is a job of many independent sub-tasks, each of which runs on its own.
- A job gives cards if it shrinks or stops so that another job can run. An equal is a job of the same priority.
- The service of a job is its card-seconds until now. A turn of a job is the time that it may run before it gives cards
  to equals.
- A draft is the plan of a round while the round still makes and tries changes.
- A reservation here is a set of cards that one round keeps for a due job.
"""
