"""Both halves of the container contract: the C library, and the Python that writes its config and reads its region."""
