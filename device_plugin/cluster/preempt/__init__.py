"""Preemption: find the pods that must end, or move, so that another fits."""
