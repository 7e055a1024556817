"""The job engine's service: it watches Jobs, plans which of them run and how wide, and carries the plans out."""
