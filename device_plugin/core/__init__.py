"""The pure heart: cards, requests, grants, the ledger, and the one `place()` that everybody calls.

No I/O, no clock, no randomness, no logging; decisions are values. A machine-checked contract keeps it so.
"""
