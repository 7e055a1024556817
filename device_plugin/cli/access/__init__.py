"""Access to the cluster and to our services, with the caller's kubeconfig and rights."""
