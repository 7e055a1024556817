"""The page for a team: people log in, and each sees what the cluster lets that person read."""
