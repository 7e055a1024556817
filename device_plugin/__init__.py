"""Fractional accelerator sharing on Kubernetes: see README.md for the stages and their data flow."""
