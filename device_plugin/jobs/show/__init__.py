"""How the job engine is observed: /explain, events, metrics."""
