"""Everything that touches the outside: the API server, the kubelet, cards, HTTP, metrics."""
