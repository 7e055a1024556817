"""The cluster service: answers /filter and /bind by the allocator, leads, and writes what was decided."""
