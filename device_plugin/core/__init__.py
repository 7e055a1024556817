"""The core: cards, requests, grants, the ledger, and the one `place()` by which every program decides.

It has no I/O, no clock, no randomness and no logging, and its decisions are values. import-linter checks this.
"""
