"""One round: the Jobs as the job engine sees them, the room that it plans with, and the trial of what is free now.

Where there are several pools each has rounds of its own, by the replica that holds its Lease.
"""
