"""Refused pods: remembered refusals, waiting pods, the preemption queue, and the refusal budget."""
