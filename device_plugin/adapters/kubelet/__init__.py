"""The kubelet's gRPC APIs: device plugin v1beta1 and pod resources v1."""
