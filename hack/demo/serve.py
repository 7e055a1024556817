"""The process behind the demo: an embedded cluster of one node with two simulated cards, until SIGTERM.

Started by session.py: python -m hack.demo.serve ROOT
"""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from hack.demo import access, session
from hack.embedded.cluster import EmbeddedCluster, Options
from vgpu_runtime import sim
from vgpu_runtime.paths import BUILD
from vgpu_runtime.sim import hip

NODE = "node-1"
CARDS = "version: v1\ncards:\n  - {preset: hygon-60cu-16gib, count: 2}\n"
PROBES = ("vgpu-probe", "vgpu-kfd-probe")
# A Job of the story shrinks soon after its start, and grows soon after it shrank; by default, 600 s and 300 s pass.
QUICK = ("--young-seconds", "0", "--cooldown-seconds", "2")


def serve(root: Path) -> int:
    """Run the cluster below `root`, write the session file when it serves, and end it on SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    options = Options(image_mounts=_image(root), engines=1, engine_flags=QUICK, shown=True)
    with EmbeddedCluster(root, {NODE: sim.parse(CARDS)}, options) as cluster:
        access.prepare(root, cluster.api.url)
        started = session.process_start(os.getpid())
        session.publish(
            session.DemoSession(
                pid=os.getpid(),
                started=started or 0,
                root=str(root),
                api=cluster.api.url,
                explain=f"http://{cluster.replicas[0].service.addresses['extender']}",
                engine=f"http://{cluster.engines[0].addresses['explain']}",
                agent=f"http://{cluster.agents[NODE].addresses['http']}",
            )
        )
        stop.wait()
    return 0


def _image(root: Path) -> list[tuple[Path, str]]:
    """The files of every container's image: the probe programs, and HIP if it is available."""
    programs = root / "image" / "bin"
    programs.mkdir(parents=True)
    for name in PROBES:
        shutil.copy(BUILD / name, programs / name)
    mounts = [(programs, "/opt/vgpu/bin")]
    try:
        mounts.append((hip.ensure(hip.default_cache()), "/opt/rocm/lib"))
    except hip.HipUnavailableError as error:
        print(f"{error}; the pods use a small program that asks the driver itself", file=sys.stderr)
    return mounts


if __name__ == "__main__":
    sys.exit(serve(Path(sys.argv[1])))
