"""The core: cards, requests, grants, the ledger, and the one `place()` that every program calls.

It has no I/O, no clock, no randomness and no logging, and decisions are values. import-linter checks this.
"""
