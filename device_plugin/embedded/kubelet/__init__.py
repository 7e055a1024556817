"""The kubelet stand-in: Registration, DevicePlugin client, PodResources, pods and their containers on one node."""

from device_plugin.embedded.kubelet.kubelet import Kubelet
from device_plugin.embedded.kubelet.timing import Timing

__all__ = ["Kubelet", "Timing"]
