"""The one-machine cluster: stand-ins for API server, kubelet and scheduler that speak the real protocols."""
