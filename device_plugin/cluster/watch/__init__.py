"""The present state of pods, nodes and loads, from the watches and the agents."""
