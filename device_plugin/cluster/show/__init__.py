"""What people and Prometheus see."""
