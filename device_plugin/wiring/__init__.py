"""Joins the services to their adapters."""
