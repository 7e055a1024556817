"""`hack/gpu-check`: does a slice hold on the cards of this machine? Python 3.8 and its standard library only."""
