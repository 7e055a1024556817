"""Prometheus' operator makes of our PodMonitor and PrometheusRule what Debian's Prometheus takes."""

import base64
import gzip
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from hack.generate.monitoring.__main__ import FOLDER
from hack.testbed import bare, programs
from tests.deadline import eventually
from tests.hack.generate.monitoring.promtool import RULES, promtool
from tests.hack.nightly.conftest import Commands

# Of the release that Debian 12 has.
PROMETHEUS = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "Prometheus",
    "metadata": {"name": "p", "namespace": "vgpu-system"},
    "spec": {
        "version": "v2.42.0",
        "podMonitorSelector": {},
        "podMonitorNamespaceSelector": {},
        "ruleSelector": {},
        "ruleNamespaceSelector": {},
    },
}


def test_prometheus_takes_what_the_operator_makes_of_ours(commands: Commands, tmp_path: Path) -> None:
    found = programs.prometheus_operator()
    commands("kubectl", "apply", "--server-side", f"--filename={found / 'crds'}")
    commands("kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    commands("kubectl", "create", "namespace", "vgpu-system")
    apply_component(commands, tmp_path)
    commands("kubectl", "apply", "--filename=-", stdin=json.dumps(PROMETHEUS))

    def made(kind: str, name: str) -> Any:
        done = commands.run("kubectl", "-n", "vgpu-system", "get", kind, name, "-o", "json")
        return json.loads(done.stdout)["data"] if done.returncode == 0 else {}

    with operating(commands, found / "operator", tmp_path / "log"):
        config = eventually(lambda: made("secret", "prometheus-p").get("prometheus.yaml.gz"), 60, 0.5)
        rules = eventually(lambda: made("configmap", "prometheus-p-rulefiles-0"), 60, 0.5)
        assert config, (tmp_path / "log").read_text()[-3000:]
    text = gzip.decompress(base64.b64decode(config)).decode()
    check_rules(rules, tmp_path)
    check_config(text, tmp_path)


def apply_component(commands: Commands, folder: Path) -> None:
    """PodMonitor, rules and boards, as an overlay has them."""
    overlay = {"components": [os.path.relpath(FOLDER, folder.resolve())]}
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    commands("kubectl", "apply", f"--kustomize={folder}", "--server-side")


@contextmanager
def operating(commands: Commands, operator: Path, log: Path) -> Iterator[None]:
    """The operator runs; its output is in the file `log`."""
    (port,) = bare.free_ports(1)
    cluster = commands.cluster
    command = [
        str(operator), f"--apiserver={cluster.url}", f"--ca-file={cluster.authority.certificate}",
        f"--cert-file={cluster.authority.file('admin', 'crt')}",
        f"--key-file={cluster.authority.file('admin', 'key')}", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            yield
        finally:
            process.terminate()


def check_rules(files: dict[str, str], folder: Path) -> None:
    """The operator's rule files have our rules, all of them, and promtool takes them."""
    (text,) = files.values()
    (folder / "rules.yaml").write_text(text)
    promtool("check", "rules", folder / "rules.yaml")
    ours = yaml.safe_load(RULES.read_text())["groups"]
    names = [[rule.get("record") or rule["alert"] for rule in group["rules"]] for group in ours]
    found = yaml.safe_load(text)["groups"]
    assert [[rule.get("record") or rule["alert"] for rule in group["rules"]] for group in found] == names


def check_config(text: str, folder: Path) -> None:
    """The configuration scrapes the port `http` of our pods, with the labels of tests/e2e/prometheus.py.

    Debian's Prometheus has no discovery of Kubernetes: promtool checks the rest.
    """
    config = yaml.safe_load(text)
    (job,) = config["scrape_configs"]
    (discovery,) = job.pop("kubernetes_sd_configs")
    assert discovery == {"role": "pod", "namespaces": {"names": ["vgpu-system"]}}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    promtool("check", "config", "--syntax-only", folder / "prometheus.yaml")
    assert (job["honor_labels"], job["metrics_path"]) == (True, "/metrics")
    relabelings = job["relabel_configs"]
    labels = {
        each["target_label"] for each in relabelings if not each.get("target_label", "__").startswith("__")
    }
    assert labels == {"job", "namespace", "pod", "container", "endpoint"}
    constants = {
        each["target_label"]: each["replacement"]
        for each in relabelings
        if "source_labels" not in each and "replacement" in each
    }
    assert constants == {"job": "vgpu-system/vgpu", "endpoint": "http"}
