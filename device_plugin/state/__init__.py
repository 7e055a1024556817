"""The present state of the cluster: pods, nodes, Jobs, promises and loads, from the watches and the agents."""
