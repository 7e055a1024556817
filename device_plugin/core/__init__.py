"""The core: cards, requests, grants, the ledger, and the one `place()` that every program calls.

No I/O, no clock, no randomness, no logging; decisions are values. A machine-checked contract keeps it so.
"""
