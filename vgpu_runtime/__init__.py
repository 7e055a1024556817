"""The C library that enforces a container's limits, and the Python that writes its config and reads its counters."""
