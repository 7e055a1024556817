"""Programs that make the figures of docs/measured.md: costs, speeds, and checks under load and under failures."""
