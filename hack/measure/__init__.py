"""Programs behind docs/measured.md: costs, speeds, and the system under load and under fire, checked from outside."""
