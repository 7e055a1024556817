"""Installs other projects' controllers, as hack/testbed/controllers.py has them, and waits until they serve."""

from pathlib import Path

from hack.testbed.controllers import Controller
from tests.e2e.kubectl import Kubectl


def install(controller: Controller, folder: Path) -> None:
    """Apply the controller's manifests by an overlay in `folder`, and return once its pod is ready."""
    controller.write_overlay(folder)
    Kubectl("")("apply", "--server-side", "--kustomize", str(folder))
    rollout = ("rollout", "status", f"deployment/{controller.deployment}", "--timeout=180s")
    Kubectl(controller.namespace)(*rollout)
