"""The slices of this node's containers: records, tickets, writable files, pods, and claims, which decide on starts."""
