"""Decisions over the state: where a pod goes, why it waits, what must end so that it fits. Nothing is written."""
