"""Builds each service from its parts and its adapters; holds the settings, and the list of all commands."""
