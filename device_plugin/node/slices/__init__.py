"""The slices of this node's containers: records, tickets, writable files, pods, and the admission of their starts."""
