"""The kubelet's connection to one registered plugin."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc

log = logging.getLogger(__name__)

# The default of grpc-go, which the kubelet uses.
MAX_MESSAGE = 4 * 1024 * 1024
# Milliseconds until a plugin that does not serve yet is tried again.
RETRY_MILLISECONDS = 100

Answer = TypeVar("Answer")


class PluginError(Exception):
    """A plugin is away, or has refused a call; the text is the real kubelet's text."""


@dataclass(frozen=True, slots=True)
class Allocated:
    """The answer of Allocate for one container."""

    env: Mapping[str, str]
    cdi_devices: tuple[str, ...]


class PluginEndpoint:
    """The connection to one plugin, which serves `resource` at `socket`."""

    def __init__(self, resource: str, socket: Path) -> None:
        self.resource = resource
        self.pre_start_required = False
        # By default, channels of one process to one address share a connection, and would reach a plugin process that
        # was already replaced. So each channel has its own connection.
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.initial_reconnect_backoff_ms", RETRY_MILLISECONDS),
        ]
        self._channel = grpc.insecure_channel(f"unix://{socket}", options)
        self._stub = rpc.DevicePluginStub(self._channel)

    def connect(self, deadline: float) -> None:
        """Wait until the plugin serves, and read its options. Raises PluginError."""
        try:
            options = self._stub.GetDevicePluginOptions(pb.Empty(), timeout=deadline, wait_for_ready=True)
        except grpc.RpcError as error:
            raise PluginError(f"failed to get device plugin options: {_text(error)}") from None
        self.pre_start_required = options.pre_start_required

    def follow(self, on_devices: Callable[[Mapping[str, bool]], None]) -> None:
        """Call `on_devices` with each list of devices (id → healthy) until the stream ends for any cause."""
        try:
            for answer in self._stub.ListAndWatch(pb.Empty()):
                on_devices({device.ID: device.health == "Healthy" for device in answer.devices})
        except (grpc.RpcError, ValueError) as error:  # ValueError: the channel was closed before the call
            log.info("ListAndWatch of %s ended: %s", self.resource, _text(error))

    def allocate(self, ids: Collection[str]) -> Allocated:
        """Call Allocate for one container, without a deadline; returns the answer. Raises PluginError."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer = self._call(self._stub.Allocate, request, None)
        if not answer.container_responses:
            raise PluginError("no containers in allocation response")
        mine = answer.container_responses[0]
        return Allocated(dict(mine.envs), tuple(device.name for device in mine.cdi_devices))

    def pre_start(self, ids: Collection[str], deadline: float) -> None:
        """Call PreStartContainer for these tickets (device IDs). Raises PluginError."""
        try:
            self._call(self._stub.PreStartContainer, pb.PreStartContainerRequest(devices_ids=ids), deadline)
        except PluginError as error:
            raise PluginError(f"device plugin PreStartContainer rpc failed with err: {error}") from None

    def close(self) -> None:
        """Close the connection; calls under way fail."""
        self._channel.close()

    def _call(self, method: Callable[..., Answer], request: object, deadline: float | None) -> Answer:
        try:
            return method(request, timeout=deadline)
        except grpc.RpcError as error:
            raise PluginError(_text(error)) from None
        except ValueError:  # the connection was closed
            raise PluginError(f"endpoint {self.resource} has been stopped") from None


def _text(error: Exception) -> str:
    if isinstance(error, grpc.Call):
        return f"rpc error: code = {error.code().name.title()} desc = {error.details()}"
    return str(error)
