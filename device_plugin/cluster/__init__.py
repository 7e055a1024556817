"""The cluster service: answers kube-scheduler by the allocator's decisions, and evicts, deletes and touches pods."""
