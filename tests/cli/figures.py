"""A server that answers as the query API of Prometheus does (prometheus.io/docs/prometheus/latest/querying/api)."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

MIB = 2.0**20
# Of a slice of 4 GiB that uses 512 MiB, and computes on half of its core groups.
BUSY = {"memory_used_bytes": 512 * MIB, "memory_limit_bytes": 4092 * MIB, "compute_ratio": 0.5}


class Figures:
    """Knows the metrics of the container `main` of the pods in `pods`, on node n1: by pod the card, and the values.

    It renamed the labels of the agents' own, as a Prometheus without honor_labels does.
    """

    def __init__(self) -> None:
        self.pods: dict[str, tuple[str, Mapping[str, float]]] = {"a": ("n1-0", BUSY)}
        self.queries = list[str]()
        figures = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                assert url.path == "/api/v1/query"
                (query,) = parse_qs(url.query)["query"]
                figures.queries.append(query)
                body = {
                    "status": "success",
                    "data": {"resultType": "vector", "result": figures.result(query)},
                }
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def result(self, query: str) -> list[Mapping[str, object]]:
        """The series of the metric that the query names, if it asks for those of the agents in vgpu-system."""
        found = list[Mapping[str, object]]()
        for pod, (card, values) in self.pods.items():
            own = {"exported_namespace": "default", "exported_pod": pod, "exported_container": "main"}
            labels = {**own, "namespace": "vgpu-system", "pod": "vgpu-node-0", "node": "n1", "card": card}
            found += [
                {"metric": labels, "value": [1.5, str(value)]}
                for name, value in values.items()
                if f"vgpu_slice_{name}{{" in query and 'namespace="vgpu-system"' in query
            ]
        return found

    def close(self) -> None:
        """The server is away."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
