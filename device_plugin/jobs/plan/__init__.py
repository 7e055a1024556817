"""The input of a round: the states of the Jobs, the fork of the ledger that the round plans with, and learnt rates."""
