"""The output of the job engine for people and monitoring: /explain, events, metrics."""
