"""What is kept of pods that were refused."""
