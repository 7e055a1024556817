"""The input of a round: the states of the Jobs, the copy of the ledger in which the round plans, and learnt rates."""
