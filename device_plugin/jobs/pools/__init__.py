"""Pools of cards: the Jobs and nodes of each pool, the Leases that decide which replica plans it, and its planner.

A cluster with one pool has one planner, for all Jobs.
"""
