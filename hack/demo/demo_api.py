"""The demo's cluster, as a person with kubectl, curl and a browser sees it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from device_plugin.cli.access.engine import answered
from device_plugin.cli.queued_jobs import in_order
from device_plugin.cli.why import planned
from device_plugin.core.answers import Answer
from device_plugin.core.http_values import JSON
from hack.demo.session import DemoSession
from hack.embedded.person import NAMESPACE, Object, Person, read


class DemoApi(Person):
    """A person with access to the cluster of a session."""

    def __init__(self, session: DemoSession) -> None:
        super().__init__(session.api)
        self._session = session

    def logs(self, pod: str) -> str:
        """The output of the pod's containers so far."""
        files = sorted(Path(self._session.root).glob(f"*/logs/{NAMESPACE}_{pod}_*.log"))
        return "".join(file.read_text(errors="replace") for file in files)

    def explain(self) -> Object:
        """The answer of /explain as JSON: the ledger and the waiting pods."""
        answer: Object = json.loads(read(self._session.explain, "/explain", JSON))
        return answer

    def queue(self) -> list[Mapping[str, Any]]:
        """The queued Jobs as `vgpu queue` shows them. Raises EngineError while the engine does not plan."""
        jobs = answered(read(self._session.engine, "/explain", JSON))["jobs"]
        return in_order(job for job in jobs if job["namespace"] == NAMESPACE)

    def why(self, job: str) -> Answer:
        """The answer that `vgpu why JOB` prints. Raises EngineError while the engine does not plan."""
        name = job if "/" in job else f"{NAMESPACE}/{job}"
        return planned(read(self._session.engine, f"/explain?{urlencode({'job': name})}", JSON)).answer

    def cards(self) -> list[Object]:
        """Every card in the ledger."""
        return [card for node in self.explain()["nodes"] for card in node["cards"]]

    def metrics(self) -> list[str]:
        """The sample lines of the node agent's /metrics."""
        text = read(self._session.agent, "/metrics")
        return [line for line in text.splitlines() if line and not line.startswith("#")]
