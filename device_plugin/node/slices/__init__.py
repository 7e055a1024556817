"""The slices of this node's containers: records, tickets, files that containers write, pods, and claims to slices."""
