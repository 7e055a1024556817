"""Housekeeping: periodic work that no request triggers."""
