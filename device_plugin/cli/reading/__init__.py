"""Values that commands read from the cluster, and an allocator made of them."""
