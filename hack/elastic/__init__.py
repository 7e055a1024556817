"""Elastic PyTorch: a trainer for torchrun that may be resized while it runs, and a trial of it without Kubernetes."""
