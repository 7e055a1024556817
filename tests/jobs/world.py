"""A job engine without any outside: an API server of dictionaries, a Job controller, cards, and a clock to move."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from device_plugin.core.batch import FailedCreation, Job, JobCondition
from device_plugin.core.contract.annotations import GRANT, QUEUE, RESIZE
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.progress import ProgressReport
from device_plugin.core.jobs.rates import read_rates
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.spec import PriorityClass
from device_plugin.core.jobs.workload_reading import spec_of
from device_plugin.core.ledger import Holding
from device_plugin.core.node_constraints import NodeIndex, Operator, Requirement, Taint
from device_plugin.core.pods import Container, ContainerKind, Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.jobs.execute.sender import Sender
from device_plugin.jobs.execute.writes import Write
from device_plugin.jobs.pools.dispatcher import Dispatcher
from device_plugin.jobs.pools.leases import PoolLeases
from device_plugin.jobs.pools.planners import Planners
from device_plugin.jobs.ports import Holdings
from device_plugin.jobs.round import Rounds
from device_plugin.kube.api import FAILED_CREATIONS, PODS, WORKLOADS, Kind, Listed, Named, Object, Ref, Where
from device_plugin.kube.errors import ConflictError, GoneError
from device_plugin.kube.leases import LEASES, Lease
from device_plugin.state.creations import FailedCreations
from device_plugin.state.jobs import KnownJobs
from device_plugin.state.managed import ManagedJobs
from device_plugin.state.nodes import KnownNodes
from device_plugin.state.view import ClusterView
from tests.builders.batch_jobs import waiting
from tests.builders.cards import FAMILY, inventory

CARD_MIB, CORES = 16368, tuple(range(60))
ONE_CARD = (Container("main", ContainerKind.MAIN, {FAMILY: "1"}),)


class JobApi:
    """Jobs, their pods, and Leases. `on_patch` may raise, before or after it calls `land`."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], Job] = {}
        self.leases: dict[str, Lease] = {}
        self.pods: dict[str, Pod] = {}
        self.patches: list[tuple[str, Object]] = []
        self.reads = 0
        self.events: dict[str, FailedCreation] = {}
        self.lists = 0
        self.engines: list[Engine] = []
        self.on_patch: Callable[[Kind[Any], Named, Object], Any] = self.land
        self._version = 0

    # The port

    def get(self, kind: Kind[Any], of: Named) -> Any:
        if kind is LEASES:
            if of.name not in self.leases:
                raise GoneError("gone")
            return self.leases[of.name]
        self.reads += 1
        return self._job(kind, of)

    def list(self, kind: Kind[Any], where: Where) -> Listed[Any]:
        """The last event of a Job about pods that were refused."""
        assert kind is FAILED_CREATIONS
        self.lists += 1
        uid = where.fields.removeprefix("involvedObject.uid=").removesuffix(",reason=FailedCreate")
        return Listed([self.events[uid]] if uid in self.events else [])

    def create(self, kind: Kind[Any], body: Object, namespace: str = "") -> Any:
        name = body["metadata"]["name"]
        assert kind is LEASES
        assert namespace
        if name in self.leases:
            raise ConflictError("it is there")
        return self._put_lease(name, body)

    def replace(self, kind: Kind[Any], of: Named, body: Object, *, subresource: str = "") -> Any:
        assert (kind, subresource) == (LEASES, "")
        if self.leases[of.name].version != body["metadata"]["resourceVersion"]:
            raise ConflictError("it has changed")
        return self._put_lease(of.name, body)

    def patch(
        self, kind: Kind[Any], of: Named, change: Object, *, subresource: str = "", by_key: bool = False
    ) -> Any:
        assert (subresource == "status") is (kind is PODS or "status" in change)
        assert by_key is ("status" in change)
        return self.on_patch(kind, of, change)

    def land(self, kind: Kind[Any], of: Named, change: Object) -> Any:
        """The patch is done."""
        if kind is PODS:
            self.patches.append((of.name, change))
            pod = self.pods[of.uid]
            return self.put_pod(
                structs.replace(
                    pod, annotations={**(pod.annotations or {}), **change["metadata"]["annotations"]}
                )
            )
        job, metadata = self._job(kind, of), change["metadata"]
        if metadata["resourceVersion"] != job.version:
            raise ConflictError("it has changed")
        self.patches.append((of.name, change))
        spec = dict(change.get("spec", {}))
        spec |= spec.pop("runPolicy", {})
        for condition in change.get("status", {}).get("conditions", ()):
            assert (condition["type"], spec) == (RESIZE, {}), "a status is written apart"
            spec["kept"] = condition["message"]
        if template := spec.pop("template", None):
            places = template["spec"]["nodeSelector"].items()
            chosen = tuple(Requirement(key, Operator.IN, (value,)) for key, value in places)
            spec["nodes"] = replace(job.nodes, required=(*job.nodes.required, *chosen))
        return self.put(
            replace(job, annotations={**job.annotations, **metadata.get("annotations", {})}, **spec)
        )

    # The others

    def _put_lease(self, name: str, body: Object) -> Lease:
        self._version += 1
        assert LEASES.parse is not None
        found: Lease = LEASES.parse(
            {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        )
        self.leases[name] = found
        return found

    def uid(self, name: str) -> str:
        """The UID of a new object, which no other one ever has."""
        self._version += 1
        return f"uid-{name}-{self._version}"

    def put(self, job: Job) -> Job:
        self._version += 1
        stored = self.jobs[job.key] = replace(job, version=str(self._version))
        for engine in self.engines:
            engine.known.see(stored)
        return stored

    def put_pod(self, pod: Pod) -> Pod:
        self.pods[pod.uid] = pod
        for engine in self.engines:
            engine.hear(pod)
        return pod

    def remove_pod(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        for engine in self.engines:
            engine.lose(pod)

    def _job(self, kind: Kind[Any], of: Named) -> Job:
        prefix = next(each.prefix for each, known in WORKLOADS.items() if known is kind)
        found = self.jobs.get((of.namespace, prefix + of.name))
        if found is None:
            raise GoneError("gone")
        return found


class World:
    """Node n1 with four cards, Jobs whose pods take a whole card each, and one engine that leads.

    With `nodes` there are as many cards on each of these, by name, in its place.
    """

    def __init__(
        self, cards: int = 4, rules: Rules | None = None, rates: str = "", nodes: Sequence[str] = ("n1",)
    ) -> None:
        self.now = 1_800_000_000.0
        self.api = JobApi()
        self.nodes = {name: Node(name, inventory(name, cards).encode()) for name in nodes}
        self.cards = [(name, f"{name}-{number}") for name in nodes for number in range(cards)]
        self.rules = rules or Rules(young_s=0.0)
        self.rates, _ = read_rates(rates)
        self.leads = True
        self.priorities: dict[str, PriorityClass] = {}
        self.quotas: dict[str, int] = {}
        """How many pods a namespace may have."""
        self.lingers = False
        """True while pods that are deleted do not end."""
        self.kept_back = set[str]()
        """Names of pods that something beside cards keeps from nodes."""
        self.crashed = set[str]()
        """Nodes on which none ends."""
        self.engine = Engine(self)

    def queue(self, name: str, width: int, least: int = 0, most: int = 0, **more: Any) -> Job:
        """Somebody creates a suspended Job of the queue `default`."""
        bounds = (
            {"vgpu.io/min-replicas": str(least), "vgpu.io/max-replicas": str(most or width)} if least else {}
        )
        template = Pod("default", "", "", containers=ONE_CARD)
        fields = {
            "annotations": bounds,
            "template": template,
            "restart_policy": "Never",
            "created": "2027-01-15T07:00:00Z",
        }
        return self.api.put(waiting(name, width, **{"labels": {QUEUE: "default"}, **fields, **more}))

    def change_node(self, name: str, **more: Any) -> None:
        """Somebody writes other labels or taints on a node."""
        self.nodes[name] = replace(self.nodes[name], **more)
        self.engine.see_node(self.nodes[name])

    def delete_pod(self, pod: Pod) -> None:
        """A pod is to end, and has no time to."""
        self.api.put_pod(structs.replace(pod, deleting=True, ends=api_time(self.now)))

    def crash_node(self, name: str) -> None:
        """A node dies: nothing new goes there, and its pods are deleted but do not end."""
        self.change_node(name, taints=(Taint("node.kubernetes.io/unreachable"),))
        self.cards = [card for card in self.cards if card[0] != name]
        self.crashed.add(name)
        for pod in [pod for pod in self.api.pods.values() if pod.node == name]:
            self.delete_pod(pod)

    def join_node(self, name: str, cards: int = 2) -> None:
        """A node comes, or comes back."""
        self.nodes[name] = Node(name, inventory(name, cards).encode())
        self.cards += [(name, f"{name}-{number}") for number in range(cards)]
        self.engine.see_node(self.nodes[name])

    def lose_node(self, name: str) -> None:
        """A node is gone, and its pods are removed."""
        del self.nodes[name]
        self.crashed.discard(name)
        self.cards = [card for card in self.cards if card[0] != name]
        for pod in [pod for pod in self.api.pods.values() if pod.node == name]:
            self.api.remove_pod(pod)
        self.engine.lose_node(name)

    def job(self, name: str) -> Job:
        return self.api.jobs["default", name]

    def record(self, name: str) -> Resize:
        return Resize.decode(self.job(name).annotations[RESIZE])

    def turn(self, seconds: float = 6.0) -> None:
        """The Job controller, the allocator and the kubelets do their work, then the engine, and time passes."""
        self.cluster()
        self.engine.rounds.step()
        self.now += seconds

    def cluster(self) -> None:
        """The Job controller creates and deletes pods, which are bound, and end, at once."""
        for key in list(self.api.jobs):
            self._control(self.api.jobs[key])
        for pod in list(self.api.pods.values()):
            if not pod.node and pod.name not in self.kept_back:
                self._bind(pod)

    def settle(self, turns: int = 12) -> None:
        for _ in range(turns):
            self.turn()

    def finish(self, name: str) -> None:
        """The Job completes."""
        job = self.job(name)
        for pod in self.of(job):
            self.api.remove_pod(pod)
        self.api.put(
            replace(job, active=0, ready=0, succeeded=job.parallelism, conditions=(JobCondition("Complete"),))
        )

    def succeed(self, name: str, index: int) -> None:
        """A pod of an Indexed Job succeeds."""
        job = self.job(name)
        for pod in self.of(job):
            if pod.index == index:
                self.api.remove_pod(pod)
        done = job.succeeded + 1
        self.api.put(replace(job, active=job.active - 1, succeeded=done, completed_indexes=str(index)))

    def tell(self, name: str, told: ProgressReport, index: int = 0) -> None:
        """The agent tells what the program of a Job's pod says."""
        said = {("default", f"{name}-{index}", "main"): told}
        self.engine.known.receive("n1", said, self.now)

    def restart(self) -> None:
        """Another engine takes over, and lists everything."""
        self.engine = Engine(self)

    def of(self, job: Job) -> list[Pod]:
        return [pod for pod in self.api.pods.values() if pod.owner_uid == job.uid]

    def _control(self, job: Job) -> None:
        wanted = 0 if job.suspend or job.ended else job.width
        for pod in self.of(job):
            if pod.index is not None and (pod.index >= wanted or pod.deleting):
                if not self.lingers and pod.node not in self.crashed:
                    self.api.remove_pod(pod)
                elif not pod.deleting:
                    self.delete_pod(pod)
        there: set[int | None] = {int(index) for index in job.completed_indexes.split(",") if index}
        there |= {pod.index for pod in self.of(job) if job.replacement == "Failed" or not pod.deleting}
        for index in set(range(wanted)) - there:
            name = f"{job.name}-{index}"
            most = self.quotas.get(job.namespace)
            if (
                most is not None
                and sum(pod.namespace == job.namespace for pod in self.api.pods.values()) >= most
            ):
                text = (
                    f'Error creating: pods "{name}" is forbidden: exceeded quota: team, limited: pods={most}'
                )
                self.api.events[job.uid] = FailedCreation(text, api_time(self.now))
                continue
            self.api.put_pod(Pod(
                job.namespace, name, self.api.uid(name), owner="Job", owner_name=job.name, owner_uid=job.uid,
                index=index, containers=ONE_CARD, created=api_time(self.now),
            ))  # fmt: skip
        pods = self.of(job)
        active = sum(not pod.deleting for pod in pods)
        status: dict[str, Any] = {"active": active, "ready": active, "terminating": len(pods) - active}
        if job.suspend is not bool(job.suspension) and not job.ended:
            suspended = (JobCondition("Suspended", since=api_time(self.now)),) if job.suspend else ()
            status |= {"conditions": suspended, "started": "" if job.suspend else api_time(self.now)}
        counted = replace(self.api.jobs[job.namespace, job.name], **status)
        if counted != self.api.jobs[job.namespace, job.name]:
            self.api.put(counted)

    def _bind(self, pod: Pod) -> None:
        """Bind the pod to the first free card of a node that its Job's constraints allow."""
        held = {s.card for each in self.api.pods.values() if (made := each.grant()) for s in made.slices()}
        job = next(job for job in self.api.jobs.values() if job.uid == pod.owner_uid)
        allowed = NodeIndex(node.traits() for node in self.nodes.values()).allowed(job.nodes)
        for node, card in self.cards:
            if card not in held and (allowed is None or node in allowed):
                text = Grant(pod.uid, node, {"main": (Slice(card, CARD_MIB, CORES),)}).encode()
                kept = {**(pod.annotations or {}), GRANT: text}
                self.api.put_pod(structs.replace(pod, node=node, phase="Running", annotations=kept))
                return


class Engine:
    """One replica, as `wiring.jobs` puts it together."""

    def __init__(self, world: World) -> None:
        self.world = world
        api, wall = world.api, lambda: world.now
        self.view = ClusterView(DEFAULT_PREFIXES, wall)
        self.nodes = KnownNodes()
        self.known = KnownJobs(self._read)
        self.sent: list[Write] = []
        self.worked = 0.0
        """Seconds of processor time that its planners have had."""
        held = self.held = self.Held(self.view, self.nodes)
        self.leases = self.made_leases()
        dispatcher = Dispatcher(held, self.made_sender(self.leases.dispatches), wall, wall)
        self.planners = Planners(
            self.known, held, self.leases, dispatcher, self._rounds, wall, lambda: self.worked
        )
        self.rounds = next(iter(self.planners.all())).rounds
        api.engines = [self]
        self.nodes.sync(world.nodes.values())
        self.view.node_news.sync(world.nodes.values())
        self.view.pod_news.sync(list(api.pods.values()))
        self.view.job_news.sync([])
        self.known.pods.sync(list(api.pods.values()))
        for kind in WORKLOADS:
            self.known.sync([job for job in api.jobs.values() if job.kind is kind], kind)

    def _read(self, job: Job) -> JobSpec:
        return spec_of(job, DEFAULT_PREFIXES, self.world.priorities, lambda _: 1.0)

    def made_leases(self) -> PoolLeases:
        """Those of an engine that is alone, and leads while its world says so."""
        leases = PoolLeases(self.world.api, Ref("vgpu-jobs", "vgpu-system"), "a", lambda: self.world.now, str)  # type: ignore[arg-type]
        leases.plans_all = leases.dispatches = lambda: self.world.leads  # type: ignore[method-assign]
        return leases

    def made_sender(self, leads: Callable[[], bool]) -> Sender:
        return Sender(self.world.api, self.known, leads, lambda: self.world.now, self.sent.append)  # type: ignore[arg-type]

    def _rounds(self, jobs: ManagedJobs, holdings: Holdings, leads: Callable[[], bool]) -> Rounds:
        world, sender = self.world, self.made_sender(leads)
        creations = FailedCreations(world.api, lambda: world.now, lambda: world.now)  # type: ignore[arg-type]
        return Rounds(
            jobs, holdings, sender, creations, leads, lambda: world.now, lambda: world.now, world.rules, world.rates
        )  # fmt: skip

    class Held:
        """The holdings of a view."""

        def __init__(self, view: ClusterView, nodes: KnownNodes) -> None:
            self._view = view
            self.why_not_synced, self.snapshot = view.why_not_synced, view.snapshot
            self.nodes = nodes.index

        def release_promised(self, *_: object) -> Sequence[Holding]:
            """Nothing is promised here."""
            return ()

    def see_node(self, node: Node) -> None:
        self.nodes.see(node)
        self.view.node_news.see(node)

    def lose_node(self, name: str) -> None:
        self.nodes.gone(name)
        self.view.node_news.gone(name)

    def hear(self, pod: Pod) -> None:
        self.view.pod_news.see(pod, watched=True)
        self.known.pods.see(pod)

    def lose(self, pod: Pod) -> None:
        self.view.pod_news.gone(pod.uid, ended=True)
        self.known.pods.forget(pod)
