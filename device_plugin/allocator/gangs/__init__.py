"""Groups of pods, and gangs, which are placed all or nothing."""
