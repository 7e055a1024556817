"""Access to the demo's cluster from a shell: a kubeconfig, and kubectl, both in the cluster's folder."""

import shlex
import sys
from pathlib import Path

from hack.embedded import kubectl
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.kubeconfig import kubeconfig_text


def prepare(root: Path, api_url: str) -> None:
    """Write the kubeconfig, and install kubectl in the folder `bin` next to it."""
    kubeconfig(root).write_text(kubeconfig_text(api_url, ADMIN, "demo"), encoding="utf-8")
    kubectl.install(root / "bin")


def kubeconfig(root: Path) -> Path:
    """The kubeconfig of the cluster in this folder. It is JSON, which is YAML too."""
    return root / "kubeconfig"


def variables(root: Path) -> str:
    """The lines that make a shell use this cluster: its kubectl, and the vgpu of this checkout."""
    programs = f"{shlex.quote(str(root / 'bin'))}:{shlex.quote(str(Path(sys.executable).parent))}"
    return f"export KUBECONFIG={shlex.quote(str(kubeconfig(root)))}\nexport PATH={programs}:$PATH\n"
