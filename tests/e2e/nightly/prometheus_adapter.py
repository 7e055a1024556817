"""A real prometheus-adapter that the API server passes requests for custom metrics on to.

It runs beside the tests, not in a pod, with the administrator's rights, behind a Service without a selector.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack.testbed import programs
from hack.testbed.layout import GATEWAY
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.waiting import eventually

PORT = 6444
NAME, API = "prometheus-adapter", "v1beta1.custom.metrics.k8s.io"
CUSTOM_METRICS = "/apis/custom.metrics.k8s.io/v1beta1"
# Seconds between its looks at the metrics' names.
RELIST = 5


@contextmanager
def adapting(folder: Path, rules: Mapping[str, Any], prometheus: str, namespace: str) -> Iterator[None]:
    """The API server has the custom metrics that these rules make of the Prometheus with this URL.

    The adapter's Service is in `namespace`; all but that is gone when the block ends.
    """
    (folder / "adapter.yaml").write_text(json.dumps(rules))
    kubeconfig = os.environ["KUBECONFIG"]
    command = [
        str(programs.prometheus_adapter()), f"--config={folder / 'adapter.yaml'}", f"--prometheus-url={prometheus}",
        f"--metrics-relist-interval={RELIST}s", "--metrics-max-age=1m", f"--secure-port={PORT}",
        f"--cert-dir={folder}",
        *(f"--{kind}-kubeconfig={kubeconfig}" for kind in ("lister", "authentication", "authorization")),
    ]  # fmt: skip
    cluster = Kubectl("")
    with (
        (folder / "adapter.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            cluster.apply(*_service(namespace), _api_service(namespace))
            assert eventually(lambda: answers(cluster) or process.poll() is not None, 60)
            assert process.poll() is None, (folder / "adapter.log").read_text()
            yield
        finally:
            # Without its server the API would keep namespaces from being deleted.
            cluster("delete", "apiservice", API, "--ignore-not-found")
            process.terminate()


def answers(cluster: Kubectl) -> bool:
    """True if the API server reaches the adapter."""
    try:
        return "custom.metrics.k8s.io" in cluster("get", "--raw", CUSTOM_METRICS)
    except KubectlError:
        return False


def _service(namespace: str) -> tuple[Mapping[str, Any], ...]:
    """A Service whose one endpoint is the adapter."""
    ports = [{"name": "https", "port": 443, "targetPort": PORT}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": NAME,
                "endpointslice.kubernetes.io/managed-by": "vgpu-e2e",
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": PORT}],
        "endpoints": [{"addresses": [GATEWAY], "conditions": {"ready": True}}],
    }
    return service, endpoints


def _api_service(namespace: str) -> Mapping[str, Any]:
    group = API.split(".", 1)[1]
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API},
        "spec": {
            "group": group,
            "version": API.split(".", 1)[0],
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": NAME, "namespace": namespace},
        },
    }
