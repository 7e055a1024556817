"""The one-machine cluster: API server, controllers, nodes with simulated cards, schedulers, and our services.

    with EmbeddedCluster(root, {"node-1": cards}) as cluster:
        cluster.api.url ...

The API server, controllers, kubelets and schedulers are threads of this process. Each service is a separate process,
so that it can be killed and measured. All files are below `root`; everything has ended when the `with` statement ends.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.embedded import installation
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import claim_policy_files, job_policy_files, policy_files
from hack.embedded.claims import ClaimController
from hack.embedded.installation import ServicePod
from hack.embedded.jobs import JobController
from hack.embedded.kubelet import Kubelet
from hack.embedded.quota_controller import QuotaController
from hack.embedded.runtime.minimal import OnStart
from hack.embedded.scheduler import SchedulerStandIn
from hack.embedded.services import ServiceProcess
from vgpu_runtime import sim

ALLOCATOR_USER = "system:serviceaccount:vgpu-system:vgpu-cluster"
ENGINE_USER = "system:serviceaccount:vgpu-system:vgpu-jobs"
AGENT_USER = "system:serviceaccount:vgpu-system:vgpu-node"
SCHEDULER_USER = "system:kube-scheduler"
# By command: its ports, and the environment variables that the manifests set in addition to settings.
PORTS: Mapping[str, Mapping[str, int]] = {
    "node": {"http": 9400}, "cluster": {"extender": 9401, "http": 9402}, "job-engine": {"explain": 9404, "http": 9403},
}  # fmt: skip
ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "node": {"MALLOC_ARENA_MAX": "2"},
    "cluster": {},
    "job-engine": {},
}
# The commands with the setting `claims`.
CLAIM_COMMANDS = ("node", "cluster")


@dataclass(frozen=True)
class Options:
    """The settings of a cluster, apart from its nodes.

    `image_mounts` (host path, container path) are the files of the containers' image. With `on_start`, containers have
    no process: each one only calls `on_start`. `flags` are added to the agents' command lines. `engines` is the number
    of replicas of the job engine, which have `engine_flags`; with at least one, the engine's admission policies are
    installed. With `claims`, slices are given by ResourceClaims too, as with the component dra, and the namespace
    `default` allows them. With `shown`, the API server also has the workloads and pods of an installation, for commands
    that show them.
    """

    replicas: int = 1
    engines: int = 0
    engine_flags: Sequence[str] = ()
    seed: int = 0
    image_mounts: Sequence[tuple[Path, str]] = ()
    on_start: OnStart | None = None
    flags: Sequence[str] = ()
    claims: bool = False
    shown: bool = False


@dataclass
class ReplicaPod:
    """One pod of the cluster service: the allocator's process and its scheduler."""

    name: str
    service: ServiceProcess
    scheduler: SchedulerStandIn


class EmbeddedCluster:
    """A cluster of `nodes` (name: simulated cards) below `root`, a short path: socket names are limited."""

    def __init__(
        self, root: Path, nodes: Mapping[str, Sequence[sim.SimCard]], options: Options | None = None
    ) -> None:
        self.root = root
        self.options = options or Options()
        self.api = EmbeddedApiServer([
            *policy_files(),
            *(job_policy_files() if self.options.engines else ()),
            *(claim_policy_files() if self.options.claims else ()),
        ])  # fmt: skip
        self.cards = dict(nodes)
        self.kubelets: dict[str, Kubelet] = {}
        self.agents: dict[str, ServiceProcess] = {}
        self.replicas: list[ReplicaPod] = []
        self.engines: list[ServiceProcess] = []
        self._controllers: list[JobController | QuotaController | ClaimController] = []

    def __enter__(self) -> "EmbeddedCluster":
        """Start everything, and return when all services listen. Raises ServiceError, CreateError."""
        try:
            self.api.start()
            if self.options.claims:
                installation.allow_claims(self.api.url)
            kinds = (JobController, QuotaController, ClaimController)
            self._controllers = [kind(self.api.url) for kind in kinds]
            for controller in self._controllers:
                controller.start()
            for index, name in enumerate(self.cards):
                self._start_node(index, name)
            for index in range(self.options.replicas):
                self._start_replica(f"vgpu-cluster-{index}")
            for index in range(self.options.engines):
                self._start_engine(f"vgpu-jobs-{index}")
            for service in self.services():
                service.wait()
            for replica in self.replicas:
                replica.scheduler.start()
            if self.options.shown:
                installation.show(self.api.url, self._pods())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all services, and the threads that stand in for Kubernetes; the API server ends last."""
        for replica in self.replicas:
            replica.scheduler.stop()
        for service in self.services():
            service.kill()
        for kubelet in self.kubelets.values():
            kubelet.stop()
        for controller in self._controllers:
            controller.stop()
        self.api.stop()

    def services(self) -> list[ServiceProcess]:
        """All processes of our services."""
        return [*self.agents.values(), *(replica.service for replica in self.replicas), *self.engines]

    def _pods(self) -> Iterator[ServicePod]:
        """A pod for each of our services, as on a real cluster; pods of Deployments are on the first node."""
        node = next(iter(self.cards))
        for name, agent in self.agents.items():
            yield ServicePod("node", agent.name, name, agent.host)
        for replica in self.replicas:
            yield ServicePod("cluster", replica.name, node, replica.service.host)
        for engine in self.engines:
            yield ServicePod("jobs", engine.name, node, engine.host)

    def state(self, node: str) -> Path:
        """The folder where a node's agent keeps its state: records and files of containers with slices."""
        return self.root / node / "state"

    def _start_node(self, index: int, name: str) -> None:
        folder = self.root / name
        machine = folder / "machine"
        sim.build(self.cards[name], machine)
        sim.add_driver(machine)
        kubelet = Kubelet(
            name, folder, self.api.url, f"system:node:{name}", self.options.seed + index,
            image_mounts=self.options.image_mounts, on_start=self.options.on_start,
        )  # fmt: skip
        self.kubelets[name] = kubelet
        kubelet.start()
        flags = {
            "--node-name": name,
            "--root": machine,
            "--kubelet-dir": kubelet.kubelet_dir,
            "--cdi-dir": kubelet.cdi_dir,
            "--process-groups": kubelet.process_groups,
            "--state-dir": self.state(name),
        }
        self.agents[name] = self._service(
            f"vgpu-node-{name}", "node", f"{AGENT_USER}@{name}", flags, self.options.flags
        )
        self.agents[name].start()

    def _start_replica(self, name: str) -> None:
        service = self._service(name, "cluster", ALLOCATOR_USER, {"--pod-name": name})
        extender = f"http://{service.host}:{PORTS['cluster']['extender']}"
        scheduler = SchedulerStandIn(self.api.url, SCHEDULER_USER, extender, name, claims=self.options.claims)
        self.replicas.append(ReplicaPod(name, service, scheduler))
        service.start()

    def _start_engine(self, name: str) -> None:
        self.engines.append(
            self._service(name, "job-engine", ENGINE_USER, {"--pod-name": name}, self.options.engine_flags)
        )
        self.engines[-1].start()

    def _service(
        self, name: str, command: str, user: str, flags: Mapping[str, object], more: Sequence[str] = ()
    ) -> ServiceProcess:
        token = self.root / "tokens" / name
        token.parent.mkdir(parents=True, exist_ok=True)
        token.write_text(user)
        arguments = [command, "--kube-server", self.api.url, "--kube-token-file", str(token)]
        host = _host()
        for what, port in PORTS[command].items():
            arguments += [f"--{what}-listen", f"{host}:{port}"]
        for flag, value in flags.items():
            arguments += [flag, str(value)]
        environment = {"VGPU_CONFIG": "", **ENVIRONMENT[command]}
        if self.options.claims and command in CLAIM_COMMANDS:
            environment["VGPU_CLAIMS"] = "true"
        return ServiceProcess(name, [*arguments, *more], self.root / f"{name}.log", environment, host)


def _host() -> str:
    """A random loopback address for one service, so that each can listen on its usual ports, as a pod would."""
    chance = random.SystemRandom()
    return ".".join(map(str, (127, *(chance.randrange(1, 255) for _ in range(3)))))
