"""The two kinds of machine that a kubelet under test runs on; the tests see no difference but `patience`."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Protocol

from hack.embedded.kubelet import Kubelet, KubeletTiming
from hack.testbed.layout import here
from hack.testbed.supervisor import order
from tests.contract.kubelet.late_plugin import Folders
from tests.deadline import eventually
from tests.files import found

NODE = "n1"
CHECKPOINT = "kubelet_internal_checkpoint"
FAST = KubeletTiming(
    retry=0.02,
    backoff=0.02,
    backoff_limit=0.1,
    node_status=0.01,
    create=0.02,
    api_retry=0.05,
    dial=1,
    prepare_retry=0.2,
    wipe=0.2,
)


class Machine(Protocol):
    """The machine of node NODE."""

    folders: Folders
    patience: float
    """How many seconds a test waits for what must happen."""
    every: float
    """How often it looks meanwhile."""

    def halt(self) -> None:
        """End the kubelet; containers live on."""

    def resume(self) -> None:
        """Start it again, and return once it takes plugins."""

    def log(self, pod: Any, container: str) -> str:
        """What the container's attempts printed, as far as it is kept."""

    def live(self, uid: str) -> set[str]:
        """The ids of the pod's containers that have processes; its sandbox may be among them."""

    def lists(self, resource: str) -> bool:
        """Whether the kubelet has had a list of the resource's tickets; the node's status tells it seconds later."""

    def close(self) -> None:
        """The tests are over."""


class StandIn:
    """A kubelet of ours, whose containers are processes unless the kubelet's `options` say otherwise."""

    patience, every = 20.0, 0.01

    def __init__(self, url: str, token: str, **options: Any) -> None:
        # Not pytest's tmp_path: unix socket paths are short.
        self._root = Path(tempfile.mkdtemp(prefix="kubelet-"))
        self.kubelet = Kubelet(NODE, self._root, url, token, **{"seed": 1, "timing": FAST, **options})
        slices = self._root / "slices"
        self.folders = Folders(self.kubelet.kubelet_dir, self.kubelet.cdi_dir, slices, slices)
        self.kubelet.start()

    def halt(self) -> None:
        self.kubelet.halt()

    def resume(self) -> None:
        self.kubelet.resume()

    def log(self, pod: Any, container: str) -> str:
        return (self.kubelet.logs / f"default_{pod['metadata']['name']}_{container}.log").read_text()

    def live(self, uid: str) -> set[str]:
        return {path.name for path in found(self.kubelet.process_groups, f"pod{uid}/*")}

    def lists(self, resource: str) -> bool:
        return resource in json.loads(_read(self.folders.plugins / CHECKPOINT) or "{}").get("registered", ())

    def close(self) -> None:
        self.kubelet.stop()
        left = [path for path in found(self.kubelet.process_groups, "**/*") if path.is_file()]
        shutil.rmtree(self._root)
        assert not left, f"containers left behind: {left}"


class Real:
    """The first node of hack/cluster. Its files are reached through the root of a process that lives on it."""

    patience, every = 60.0, 0.1

    def __init__(self) -> None:
        self._control = here().control(NODE)
        pid = self._order("run", command=["sh", "-c", "echo $PPID"])["output"].strip()
        self._root = Path(f"/proc/{pid}/root")
        slices = Path("/var/lib/lab")
        self.folders = Folders(
            self._root / "var/lib/kubelet",
            self._root / "run/cdi",  # /var/run is a link, which would lead out of this root
            self._root / slices.relative_to("/"),
            slices,
        )

    def halt(self) -> None:
        self._order("stop", program="kubelet")

    def resume(self) -> None:
        socket = self.folders.plugins / "kubelet.sock"
        socket.unlink(missing_ok=True)
        self._order("start", program="kubelet")
        assert eventually(socket.exists, self.patience)

    def log(self, pod: Any, container: str) -> str:
        metadata = pod["metadata"]
        folder = f"var/log/pods/default_{metadata['name']}_{metadata['uid']}/{container}"
        attempts = sorted((self._root / folder).glob("*.log"), key=lambda path: int(path.stem))
        lines = "".join(map(_read, attempts)).splitlines()  # the kubelet removes those of old attempts
        return "".join(f"{line.split(' ', 3)[3]}\n" for line in lines)  # time, stream, whether it is whole

    def live(self, uid: str) -> set[str]:
        groups = found(self._root / "sys/fs/cgroup/pids/kubepods", f"**/pod{uid}/*/cgroup.procs")
        return {path.parent.name for path in groups if _read(path)}

    def lists(self, resource: str) -> bool:
        kept = json.loads(_read(self.folders.plugins / CHECKPOINT) or '{"Data": {}}')
        return resource in (kept["Data"].get("RegisteredDevices") or ())

    def close(self) -> None:
        shutil.rmtree(self.folders.slices, ignore_errors=True)
        for spec in self.folders.cdi.glob("lab-*.json"):
            spec.unlink()

    def _order(self, do: str, **details: object) -> dict[str, Any]:
        return order(self._control, do, **details)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it is gone
        return ""
