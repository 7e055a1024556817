"""Where a pod goes: /filter, reservations, /bind, and what is learnt for the next."""
