"""Trials: the whole system under load and under fire, on the one-machine cluster, checked from outside."""
