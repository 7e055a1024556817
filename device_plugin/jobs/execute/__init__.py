"""Executes plans: the writes that each Job needs next, their contents, and the sender of the writes."""
