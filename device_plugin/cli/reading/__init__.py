"""Reads the values that commands need from the cluster, and makes an allocator of them."""
