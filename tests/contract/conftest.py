"""One cluster for all tests here: the stand-in, or with VGPU_CONTRACT_KUBECONFIG a real one.

The real one must have the policies of manifests/admission. Its administrator impersonates everybody else.
"""

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import job_policy_files, policy_files
from hack.embedded.claims import ClaimController
from hack.embedded.claims.controller import USER as CLAIM_CONTROLLER
from hack.embedded.jobs import JobController
from hack.embedded.jobs.controller import USER as JOB_CONTROLLER
from hack.embedded.quota_controller import USER as QUOTA_CONTROLLER
from hack.embedded.quota_controller import QuotaController
from hack.testbed.cluster import INSIDE
from hack.testbed.layout import CONTROL_PLANE, here
from hack.testbed.supervisor import order
from tests.builders.cards import MEM
from tests.builders.objects import pod
from tests.builders.written_jobs import as_object, job
from tests.contract.asking import asking, container
from tests.contract.claims import CLAIMS, claim, remove
from tests.contract.cluster import JOBS, OWN_NODE, PODS, Cluster, unique
from tests.deadline import eventually
from tests.release import OLDER
from tests.requirement import require

USERS = {
    "admin": "system:admin",
    "allocator": "system:serviceaccount:vgpu-system:vgpu-cluster",
    "agent": "system:serviceaccount:vgpu-system:vgpu-node@node-of-the-agent",
    "engine": "system:serviceaccount:vgpu-system:vgpu-jobs",
    "kueue": "system:serviceaccount:kueue-system:kueue-controller-manager",
    "controller": JOB_CONTROLLER,
    "kubelet": "system:node:n1",
    "own kubelet": f"system:node:{OWN_NODE}",
    "garbage collector": "system:serviceaccount:kube-system:pod-garbage-collector",
    "controller manager": "system:kube-controller-manager",
    "claim controller": "system:serviceaccount:kube-system:resource-claim-controller",
    "scheduler": "system:kube-scheduler",
    "tenant": "jane",
    "editor": "carol",
}
# On a real cluster all but these may do everything: where RBAC refused first, these tests could not see what admission
# says. The editor and Kueue may do what Kubernetes' role `edit` allows, so admission's authorizer can say no. The
# controller is the one of Jobs, with its rights and the group by which policies know it; a kubelet is one by its group.
EDITORS = "vgpu-contract-editors"
GROUPS = {
    "editor": EDITORS, "kueue": EDITORS, "controller": "system:serviceaccounts:kube-system",
    "own kubelet": "system:nodes",
}  # fmt: skip


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if file := os.environ.get("VGPU_CONTRACT_KUBECONFIG"):
        made = _real(Path(file))
        yield made
        made.close()
        return
    server = stand_in([*policy_files(), *job_policy_files()])
    controllers = (
        JobController(server.url, "token-of-jobs"), QuotaController(server.url, "token-of-quotas"),
        ClaimController(server.url, "token-of-claims"),
    )  # fmt: skip
    for controller in controllers:
        controller.start()

    def forget(version: str) -> str:
        server.store.compact()
        return version

    made = seen(server, forget)
    yield made
    made.close()
    for controller in controllers:
        controller.stop()
    server.stop()


def stand_in(policies: Sequence[Path]) -> EmbeddedApiServer:
    """A stand-in that serves, with these policies and the tokens of all roles."""
    tokens = {f"token-of-{role}": user for role, user in USERS.items()} | {
        "token-of-jobs": JOB_CONTROLLER,
        "token-of-quotas": QUOTA_CONTROLLER,
        "token-of-claims": CLAIM_CONTROLLER,
    }
    server = EmbeddedApiServer(policies, tokens=tokens, bookmark_seconds=0.2)
    server.start()
    return server


def seen(server: EmbeddedApiServer, forget: Callable[[str], str] | None = None) -> Cluster:
    """The stand-in as the tests see a cluster."""
    identities = {role: {"Authorization": f"Bearer token-of-{role}"} for role in USERS}
    return Cluster(server.url.removeprefix("http://"), identities, forget)


def _real(file: Path) -> Cluster:
    config = yaml.safe_load(file.read_text())
    where, who = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls = ssl.create_default_context(cafile=where["certificate-authority"])
    tls.load_cert_chain(who["client-certificate"], who["client-key"])
    identities = {role: _impersonated(role, user) for role, user in USERS.items() if role != "admin"}
    address = where["server"].removeprefix("https://")

    def forget(version: str) -> str:
        """Its watch cache begins anew, with no history."""
        require(
            os.environ.get(INSIDE), "stops the API server, so it needs the project's own cluster: make e2e"
        )
        for do in ("kill", "start"):  # on SIGTERM it waits 30 s for open watches
            order(here().control(CONTROL_PLANE), do, program="kube-apiserver")
        made.close()  # the next request connects again
        assert eventually(lambda: _ready(made), 180, every=0.1)
        return version

    made = Cluster(address, {"admin": {}, **identities}, forget, tls)
    _let_edit(made)
    assert eventually(lambda: _holds(made), 60, every=0.5)
    return made


def _holds(cluster: Cluster) -> bool:
    """True once the API server evaluates the policies that were installed a moment ago, and the editor may edit."""
    good, bad = asking(unique()), asking(unique(), containers=[container(limits={MEM: "0"})])
    made = cluster.post(f"{PODS}?dryRun=All", good, "editor")
    refusal = cluster.post(f"{PODS}?dryRun=All", bad, "editor")
    return (made.code, refusal.code) == (201, 422) and made.body["spec"]["schedulerName"] == "vgpu-scheduler"


@pytest.fixture(scope="session")
def job_policies(cluster: Cluster) -> Iterator[None]:
    """The admission policies of the job engine; a real cluster without the engine gets them for these tests."""
    made = []
    if os.environ.get("VGPU_CONTRACT_KUBECONFIG"):
        documents = [item for file in job_policy_files() for item in yaml.safe_load_all(file.read_text())]
        made = [path for item in documents if (path := _create_policy(cluster, item))]
        assert eventually(lambda: _job_policies_hold(cluster), 60, every=0.5)
    yield
    for path in reversed(made):
        cluster.delete(path)


def _job_policies_hold(cluster: Cluster) -> bool:
    """True once the API server evaluates the policies of both kinds, of which vgpu-jobs is the last to be created."""
    unnamed, started = (as_object(job({"queue": queue}, name=unique())) for queue in ("", "default"))
    started["spec"]["suspend"] = OLDER
    made = cluster.post(f"{JOBS}?dryRun=All", started).body
    return cluster.post(f"{JOBS}?dryRun=All", unnamed).code == 422 and made["spec"]["suspend"]


def _create_policy(cluster: Cluster, item: dict[str, Any]) -> str:
    """The path of a policy or binding that was created; empty if it was there, or this Kubernetes is too old for it."""
    plural = item["kind"].lower().removesuffix("y") + ("ies" if item["kind"].endswith("y") else "s")
    path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
    code = cluster.post(path, item).code
    assert code in (201, 404, 409), (path, code)
    return f"{path}/{item['metadata']['name']}" if code == 201 else ""


def _let_edit(cluster: Cluster) -> None:
    group = "rbac.authorization.k8s.io"
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": EDITORS},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": EDITORS}],
    }
    assert cluster.post(f"/apis/{group}/v1/clusterrolebindings", body).code in (201, 409)


def _impersonated(role: str, user: str) -> dict[str, str]:
    name, _, node = user.partition("@")
    # As Kubernetes writes header names: anything but letters, digits and -_. is percent-encoded.
    extra = {"Impersonate-Extra-authentication.kubernetes.io%2fnode-name": node} if node else {}
    return {"Impersonate-User": name, "Impersonate-Group": GROUPS.get(role, "system:masters"), **extra}


def _ready(cluster: Cluster) -> bool:
    """True once it answers and its watch cache of pods has been filled; before, it refuses watches."""
    try:
        with cluster.watch(PODS, timeoutSeconds="1") as watch:
            return watch.code == cluster.get("/api/v1/namespaces/default").code == 200
    except OSError:
        cluster.close()
        return False


@pytest.fixture
def name() -> str:
    return unique()


@pytest.fixture
def path(name: str) -> str:
    """Where the pod `name` is."""
    return f"{PODS}/{name}"


@pytest.fixture
def pending(cluster: Cluster, name: str, path: str) -> Iterator[str]:
    """The path of the pod `name`, which exists and has no node; no scheduler takes it."""
    assert cluster.post(PODS, pod(name, schedulerName="nobody")).code == 201
    yield path
    cluster.delete(f"{path}?gracePeriodSeconds=0")


@pytest.fixture
def accepted(cluster: Cluster, path: str) -> Iterator[Any]:
    """A function that creates a pod, and returns its spec; the pod is removed afterwards."""

    def create(body: dict[str, Any], role: str = "tenant") -> dict[str, Any]:
        answer = cluster.post(PODS, body, role)
        assert answer.code == 201, answer.body
        return dict(answer.body["spec"])

    yield create
    cluster.delete(f"{path}?gracePeriodSeconds=0")


@pytest.fixture
def named(cluster: Cluster) -> Iterator[str]:
    """The path of a claim that a person made."""
    path = f"{CLAIMS}/{unique()}"
    assert cluster.post(CLAIMS, claim(path.rpartition("/")[2])).code == 201
    yield path
    remove(cluster, path)
