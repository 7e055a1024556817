"""A Prometheus of a test's own, which scrapes our services as the PodMonitor says and evaluates our rules."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import yaml

from hack.generate.monitoring.__main__ import FOLDER
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.waiting import eventually
from tests.hack.generate.monitoring.promtool import NEEDED, RULES
from tests.requirement import require

# Seconds between scrapes, and between evaluations of the rules; texts of /metrics are a second old at most.
INTERVAL = 2


class Prometheus:
    """A running Prometheus, by its API. What it does not answer raises KubectlError, for waits to ask again."""

    def __init__(self, address: str) -> None:
        """`address` is a host and a port."""
        self.address = address

    def ready(self) -> bool:
        """True once it answers queries."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def query(self, query: str) -> Sequence[Mapping[str, Any]]:
        """The series that a query gives now."""
        found: Sequence[Mapping[str, Any]] = self._get("query", query=query)["result"]
        return found

    def rules(self) -> Sequence[Mapping[str, Any]]:
        """All rules, each with its health and its last error."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> Sequence[Mapping[str, Any]]:
        """All targets, each with its health and its last error."""
        found: Sequence[Mapping[str, Any]] = self._get("targets")["activeTargets"]
        return found

    def _get(self, what: str, **words: str) -> Any:
        url = f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except (OSError, HTTPException, ValueError) as error:
            raise KubectlError(f"{url}: {error}") from error


def monitored() -> Sequence[Mapping[str, Any]]:
    """The targets that Prometheus' operator makes of our PodMonitor, as a file for Prometheus lists them."""
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())
    where, spec = monitor["metadata"]["namespace"], monitor["spec"]
    labels = ",".join(f"{name}={value}" for name, value in spec["selector"]["matchLabels"].items())
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "honorLabels": True}
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {
                "job": f"{where}/{monitor['metadata']['name']}", "namespace": where, "pod": pod["metadata"]["name"],
                "container": container["name"], "endpoint": endpoint["port"],
            },
        }
        for pod in Kubectl(where).items(labels=labels)
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port.get("name") == endpoint["port"]
    ]  # fmt: skip


@contextmanager
def scraping(folder: Path, targets: Sequence[Mapping[str, Any]]) -> Iterator[Prometheus]:
    """A Prometheus that scrapes these targets, with its files in `folder`; it ends with the block."""
    program = shutil.which("prometheus")
    require(program, NEEDED)
    (folder / "targets.json").write_text(json.dumps(targets))
    config = {
        "global": dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), f"{INTERVAL}s"),
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": "vgpu", "honor_labels": True, "file_sd_configs": [{"files": [str(folder / "targets.json")]}]}
        ],
    }  # fmt: skip
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(program), f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}", "--log.level=warn",
    ]  # fmt: skip
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        made = Prometheus(address)
        try:
            assert eventually(lambda: made.ready() or process.poll() is not None, 30)
            assert process.poll() is None, (folder / "log").read_text()
            yield made
        finally:
            process.terminate()
