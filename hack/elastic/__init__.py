"""Elastic PyTorch: a trainer for torchrun that can be resized while it runs, and a test of it without Kubernetes."""
