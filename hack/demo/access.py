"""Access to the demo's cluster from a shell: a kubeconfig, and kubectl, both in the cluster's folder."""

import json
import shlex
import sys
from pathlib import Path

from hack.embedded import kubectl
from hack.embedded.apiserver.admission import ADMIN


def prepare(root: Path, api_url: str) -> None:
    """Write the kubeconfig, and install kubectl in the folder `bin` next to it."""
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": {"server": api_url}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        "users": [{"name": "demo", "user": {"token": ADMIN}}],
    }  # fmt: skip
    kubeconfig(root).write_text(f"{json.dumps(config, indent=2)}\n", encoding="utf-8")
    kubectl.install(root / "bin")


def kubeconfig(root: Path) -> Path:
    """The kubeconfig of the cluster in this folder. It is JSON, which is YAML too."""
    return root / "kubeconfig"


def variables(root: Path) -> str:
    """The lines that make a shell use this cluster: its kubectl, and the vgpu of this checkout."""
    programs = f"{shlex.quote(str(root / 'bin'))}:{shlex.quote(str(Path(sys.executable).parent))}"
    return f"export KUBECONFIG={shlex.quote(str(kubeconfig(root)))}\nexport PATH={programs}:$PATH\n"
