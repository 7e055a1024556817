"""The cluster and our services, with the kubeconfig and the rights of the caller."""
