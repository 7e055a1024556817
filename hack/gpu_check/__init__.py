"""`hack/gpu-check`: tests whether limits of slices hold on this machine's cards, with Python 3.8 and nothing else."""
