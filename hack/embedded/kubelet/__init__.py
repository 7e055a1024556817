"""A stand-in for the kubelet of one node: device plugins, PodResources, pods and their containers."""

from hack.embedded.kubelet.kubelet import Kubelet
from hack.embedded.kubelet.timing import KubeletTiming

__all__ = ["Kubelet", "KubeletTiming"]
