"""The kubelet stand-in: Registration, DevicePlugin client, PodResources, pods and their containers on one node."""

from hack.embedded.kubelet.kubelet import Kubelet
from hack.embedded.kubelet.timing import KubeletTiming

__all__ = ["Kubelet", "KubeletTiming"]
