"""Views of the cluster for people and for Prometheus."""
