"""The container runtime stand-in: CDI devices resolved through a lagging cache, containers without root."""
