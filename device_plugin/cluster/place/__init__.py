"""Placing of pods: /filter, reservations, /bind, and the target workload."""
