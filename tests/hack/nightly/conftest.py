"""Tests of what we publish, in the hands of the programs that take it; `hack/nightly tools` runs them."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from hack.testbed import bare, nightly, programs

if os.environ.get(nightly.WANTED) != "true":
    collect_ignore_glob = ["test_*.py"]

# The API server refuses pods above the level baseline in every namespace without a label.
BASELINE = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: latest}
"""
CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "namespace-controller",
)


class Commands:
    """Commands with the administrator's kubeconfig, and the programs that hack/nightly built."""

    def __init__(self, cluster: bare.BareCluster) -> None:
        self.cluster = cluster
        found = programs.installed()
        path = f"{found.kubernetes}:{programs.helm().parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path}

    def run(self, *command: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """The ended command."""
        return subprocess.run(
            command, env=self.environment, input=stdin, capture_output=True, text=True, check=False
        )

    def __call__(self, *command: str, stdin: str = "") -> str:
        """What the command prints; it must succeed."""
        done = self.run(*command, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """On a real API server whose Pod Security's default is baseline, with the controllers of workloads."""
    folder = tmp_path_factory.mktemp("cluster")
    config = folder.with_suffix(".yaml")
    config.write_text(BASELINE)
    flag = f"--admission-control-config-file={config}"
    with bare.running(folder, programs.kubernetes(), flag, controllers=CONTROLLERS) as cluster:
        yield Commands(cluster)
