"""What people and machines may know of the job engine: /explain, metrics."""
