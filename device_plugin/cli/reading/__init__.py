"""What commands read of the cluster, as values, and an allocator made of it."""
