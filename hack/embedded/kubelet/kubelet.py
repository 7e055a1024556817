"""The kubelet of one embedded node: the class that tests and the demo use."""

import random
from collections.abc import Sequence
from pathlib import Path

from hack.embedded.kubelet.claims import PreparedClaim
from hack.embedded.kubelet.session import KubeletSession, NodeConfig
from hack.embedded.kubelet.timing import KubeletTiming
from hack.embedded.runtime.cdi import CdiCache
from hack.embedded.runtime.minimal import MinimalRuntime, OnStart
from hack.embedded.runtime.process_groups import ProcessGroups
from hack.embedded.runtime.processes import ProcessRuntime

# sockaddr_un holds 107 characters; "/kubelet/device-plugins/" and the name of a plugin's socket need some of them.
LONGEST_ROOT = 50


class Kubelet:
    """A node `node_name` with all its files below `root`, which must be a short path because of its unix sockets.

    `api_url` is the URL of the API server, `token` the bearer token of `system:node:<node_name>`. All random choices
    follow `seed`. Containers are processes with the host's programs and `image_mounts` (host path, container path).
    With `on_start` they have no processes (see hack.embedded.runtime.minimal).
    """

    def __init__(
        self,
        node_name: str,
        root: Path,
        api_url: str,
        token: str,
        seed: int = 0,
        *,
        image_mounts: Sequence[tuple[Path, str]] = (),
        on_start: OnStart | None = None,
        timing: KubeletTiming | None = None,
    ) -> None:
        if len(str(root.absolute())) > LONGEST_ROOT:
            raise ValueError(
                f"{root}: longer than {LONGEST_ROOT} characters, too long for unix sockets below it"
            )
        self.root = root.absolute()
        self.kubelet_dir = self.root / "kubelet"
        self.cdi_dir = self.root / "cdi"
        self.process_groups = self.root / "groups"
        self.logs = self.root / "logs"
        self._random = random.Random(seed)
        self._config = NodeConfig(node_name, self.kubelet_dir, api_url, token, timing or KubeletTiming())
        self._image_mounts = image_mounts
        self._on_start = on_start
        self._runtime: ProcessRuntime | MinimalRuntime | None = None
        self._session: KubeletSession | None = None
        self._prepared: dict[tuple[str, str], PreparedClaim] = {}

    def start(self) -> None:
        """Start the kubelet. Raises CreateError, with advice, if this machine refuses containers."""
        self.cdi_dir.mkdir(parents=True, exist_ok=True)
        groups = ProcessGroups(self.process_groups)
        cdi = CdiCache(self.cdi_dir, self._config.timing.cdi_lag, self._random.getrandbits(32))
        if self._on_start is not None:
            self._runtime = MinimalRuntime(cdi, groups, self._on_start)
        else:
            self._runtime = ProcessRuntime(
                cdi, groups, folder=self.root / "mnt", logs=self.logs, extra=self._image_mounts
            )
            self._runtime.check()
        self.resume()

    def stop(self) -> None:
        """Stop the kubelet, and end every container."""
        self.halt()
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None

    def restart(self) -> None:
        """Restart as `systemctl restart kubelet` does: plugin sockets are removed, running containers go on."""
        self.halt()
        self.resume()

    def halt(self) -> None:
        """End the kubelet's process; running containers go on."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def resume(self) -> None:
        """Start the kubelet's process again; running containers go on."""
        if self._runtime is None:
            raise RuntimeError("the kubelet was not started")
        self._session = KubeletSession(self._config, self._runtime, self._random, self._prepared)
        self._session.start()
