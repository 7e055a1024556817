"""Another vendor's device plugin, on the wire."""

from collections.abc import Collection, Sequence
from pathlib import Path

from device_plugin.adapters.kubelet.server import PluginServer


class OtherPlugin:
    """It serves `resource` with these devices on a socket of its own in the kubelet's folder; `socket` is its name."""

    def __init__(self, folder: Path, resource: str, devices: Sequence[str], socket: str = "") -> None:
        self._server = PluginServer(resource, folder, self)
        self._server.endpoint = socket or f"theirs-{resource.rpartition('/')[2]}.sock"
        self._server.path = folder / self._server.endpoint
        self._server.update(dict.fromkeys(devices, True))
        self.allocated: list[str] = []
        self._server.start()
        self._server.register()

    def allocate(self, _resource: str, tickets: Collection[str]) -> str:
        self.allocated.extend(tickets)
        return "theirs.io/card=0"

    def pre_start(self, _resource: str, _tickets: Collection[str]) -> None:
        """Nothing to prepare."""

    @property
    def listened_to(self) -> bool:
        """True while the kubelet has it."""
        return self._server.streaming

    def stop(self) -> None:
        self._server.stop()
        self._server.path.unlink(missing_ok=True)
