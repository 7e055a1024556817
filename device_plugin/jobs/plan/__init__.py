"""One round: the Jobs as the job engine sees them, the room that it plans with, and the trial of what is free now."""
