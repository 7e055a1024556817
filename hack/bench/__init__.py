"""Benchmarks of the product's own parts."""
