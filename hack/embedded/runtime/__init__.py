"""The container runtime stand-in: it runs containers without root, and finds CDI devices through a delayed cache."""
