"""The machine whose cards the agent shares: the real one, or one of simulated cards."""
