"""The streams on which a plugin sends its devices to the kubelet: now, and again after each change."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import grpc

State = TypeVar("State")


class DeviceStreams(Generic[State]):
    """Holds the state of each device by name, and the open streams that send all states. Safe from any thread.

    The states are also sent when `seconds` have passed without a change; if `seconds` is None, only after changes.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._changed = threading.Condition()
        self._devices: Mapping[str, State] = {}
        self._version = 0
        # Streams end when it grows.
        self._ended = 0
        self._open = 0

    @property
    def open(self) -> bool:
        """True while the kubelet reads a stream."""
        with self._changed:
            return self._open > 0

    def update(self, devices: Mapping[str, State]) -> None:
        """Send the states (health, for example) of all devices on the open streams, if one has changed."""
        with self._changed:
            if devices != self._devices:
                self._devices = dict(devices)
                self._version += 1
                self._changed.notify_all()

    def end(self) -> None:
        """End all open streams."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def devices(self, context: grpc.ServicerContext) -> Iterator[Mapping[str, State]]:
        """Yields the states of all devices each time that this call's stream must send them, until it ends."""
        gone = threading.Event()

        def leave() -> None:
            with self._changed:
                gone.set()
                self._changed.notify_all()

        if not context.add_callback(leave):
            return
        with self._counted():
            begun, sent = self._ended, -1
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: gone.is_set() or self._ended != begun or self._version != sent,  # noqa: B023
                        self._seconds,
                    )
                    if gone.is_set() or self._ended != begun:
                        return
                    sent, devices = self._version, self._devices
                yield devices

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            self._open += 1
        try:
            yield
        finally:
            with self._changed:
                self._open -= 1
