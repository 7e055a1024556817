"""`vgpu fit` says where pods would go now, and changes nothing."""

import io
import json
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.reading.local_allocator import LocalAllocator
from device_plugin.kube.errors import from_status
from device_plugin.wiring.commands import main
from tests.builders import objects
from tests.builders.cards import CORES, MEM
from tests.builders.claims import claim
from tests.cli.fleet import Fleet
from tests.contract.cluster import PODS
from tests.pages import PROJECT


@pytest.fixture
def half_full(fleet: Fleet) -> Fleet:
    """A node of two cards; one of them is taken."""
    fleet.node("n1", 2)
    fleet.pod("holder", 16, "n1-0")
    return fleet


def fit(fleet: Fleet, *words: str) -> int:
    return main(["fit", *words, "--kubeconfig", str(fleet.kubeconfig)])


def test_a_slice_is_placed_and_more_of_it_are_counted(
    half_full: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(half_full, "--mem", "4", "--cores", "15") == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "default/fit: 1 of 1 fit now (hygon.com/dcu-mem: 4, hygon.com/dcu-cores: 15)",
        "  4092 MiB and core groups 0-14 of n1-1 on n1",
        "  Room for 3 more of these",
    ]
    assert set(half_full.pods()) == {"holder"}


def test_of_too_many_the_first_that_does_not_fit_is_explained(
    half_full: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(half_full, "--percent", "40", "--count", "5") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "default/fit: 2 of 5 fit now (hygon.com/dcu-percent: 40)"
    assert said[1] == "  2 on n1 n1-1"
    assert said[2] == "  default/fit-2 fits no node now"
    assert said[3].startswith("  1 node with Z100 (n1): 2 cards: ")
    help_at = said.index("What would help:")
    assert "  What fits now: hygon.com/dcu-percent: 20" in said[help_at:]
    assert said[-1].startswith("From the API server's lists")


def test_manifests_are_placed_one_after_the_other(
    half_full: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    mocker: MockerFixture,
) -> None:
    slices = objects.pod("x", {MEM: "6", CORES: "20"})["spec"]
    made = {"metadata": {"name": "web"}, "spec": {"replicas": 2, "template": {"spec": slices}}}
    documents = [
        {"apiVersion": "apps/v1", "kind": "Deployment", **made},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}},
        {"kind": "List", "items": [objects.pod("late", {MEM: "6", CORES: "10"}, {"namespace": "team-a"})]},
        objects.job("train", 2, pod={"containers": [objects.container(limits={MEM: "2"})]}),
    ]
    text = "\n---\n".join(map(json.dumps, documents))
    file = tmp_path / "all.yaml"
    file.write_text(text)
    assert fit(half_full, str(file), "-o", "json") == 1
    told = json.loads(capsys.readouterr().out)["workloads"]
    assert [(each["name"], each["fit"], each["asked"], each["more"]) for each in told] == [
        ("default/web", 2, 2, 0), ("team-a/late", 0, 1, 0), ("default/train", 2, 2, 0),
    ]  # fmt: skip
    assert told[1]["answer"].startswith("team-a/late: 0 of 1 fit now (")
    assert told[1]["reasons"][0] == "team-a/late-0 fits no node now"
    assert told[1]["help"] == told[1]["refused"]["help"] != []
    assert told[1]["refused"]["smaller"] == ["hygon.com/dcu-mem: 4, hygon.com/dcu-cores: 10"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    units = mocker.spy(LocalAllocator, "units")
    assert fit(half_full, "-") == 1
    assert units.call_count == 1


def test_what_a_container_limits_it_requests(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test's node shows no CPU, so nothing that takes CPU fits."""
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(objects.pod("p", {MEM: "4", "cpu": "2"})))
    assert fit(half_full, str(file)) == 1
    assert "on nodes with too little free CPU, memory or disk" in capsys.readouterr().out


def test_a_gang_fits_as_a_whole_or_not_at_all(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gang.yaml"
    for size, status in ((2, 0), (3, 1)):
        labels = {"vgpu.io/group": "g", "vgpu.io/group-size": str(size)}
        job = objects.job("g", size, pod={"containers": [objects.container(limits={MEM: "8", CORES: "30"})]})
        job["spec"]["template"]["metadata"] = {"labels": labels}
        file.write_text(json.dumps(job))
        assert fit(half_full, str(file)) == status
    said = capsys.readouterr().out
    assert "default/g: 2 of 2 fit now" in said
    assert "default/g: 0 of 3 fit now" in said


@pytest.mark.parametrize(
    ("words", "text", "says"),
    [
        ((), "", "write either FILE, or what a pod asks for, such as --mem 4 --cores 15"),
        (("FILE", "--mem", "4"), "", "write either FILE, or what"),
        (("--mem", "4", "--count", "0"), "", "write --count from 1 to 1000"),
        (("FILE",), "kind: ConfigMap", "has no Pod, and nothing with a template of pods"),
        (("FILE",), "a: [", "is not YAML: "),
        (("FILE",), '{"kind": "Pod", "spec": {"containers": [1]}}', "pod cannot be read"),
        (("/nowhere",), "", "/nowhere cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_told(
    fleet: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    text: str,
    says: str,
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text)
    assert fit(fleet, *(str(file) if word == "FILE" else word for word in words)) == 2
    assert says in capsys.readouterr().err


def test_without_the_right_to_list_it_says_what_to_ask_for(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture
) -> None:
    mocker.patch.object(KubeClient, "list", side_effect=from_status(403, "Forbidden", "nodes is forbidden"))
    assert fit(fleet, "--mem", "4") == 2
    assert (
        "nodes is forbidden (403 Forbidden): have an administrator bind the ClusterRole"
        in capsys.readouterr().err
    )


def test_a_malformed_request_is_told(half_full: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit(half_full, "--mem", "0.5") == 1
    assert "hygon.com/dcu-mem is '0.5': write a whole number of at least 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (
            {"hygon.com/hcunum": "1", "hygon.com/hcumem": "4096"},
            "hygon.com/hcunum is no resource of a card: write hygon.com/hcu, or if the file is for another product,"
            " rewrite it with `vgpu convert`",
        ),
        (
            {"hygon.com/dcumem": "4"},
            "hygon.com/dcumem is no resource of a card: write hygon.com/dcu-mem, or if",
        ),
        (
            {"hygon.com/hcu-share-4c-16g": "1"},
            "hygon.com/hcu-share-4c-16g is no resource of a card: write hygon.com/hcu-mem and hygon.com/hcu-cores",
        ),
        (
            {"hygon.com/DCU_cores": "4"},
            "hygon.com/DCU_cores is no resource of a card: write hygon.com/dcu-cores",
        ),
        ({MEM: "4", "hygon.com/dcu.percentage": "4"}, "write hygon.com/dcu-percent"),
        ({"hygon.com/dcus": "1"}, "hygon.com/dcus is no resource of a card: write hygon.com/dcu"),
        ({MEM: "4Gi"}, "hygon.com/dcu-mem is 4Gi memory units of 1 GiB: write 4"),
        ({MEM: "4294967297"}, "hygon.com/dcu-mem is 4294967297 memory units of 1 GiB: write 5"),
        ({MEM: "4000"}, "hygon.com/dcu-mem is 4000 memory units of 1 GiB: write 4 if you mean 4000 MiB"),
        (
            {MEM: "2000.5"},
            "hygon.com/dcu-mem is 2000.5 memory units of 1 GiB: write 2 if you mean 2000.5 MiB",
        ),
        ({MEM: "4Ei"}, "hygon.com/dcu-mem is 4Ei: no card has more than 1024 memory units"),
        ({"cpu": "1"}, "asks for no slice of hygon.com/dcu, hygon.com/hcu, so vgpu does not place it"),
        ({"other.com/nic": "1"}, "asks for no slice of hygon.com/dcu"),
        (
            {"nvidia.com/gpu": "1"},
            "so vgpu does not place it. container main asks for nvidia.com/gpu: if the file is for another product,"
            " rewrite it with `vgpu convert`",
        ),
        ({"aliyun.com/gpu-mem": "4"}, "container main asks for aliyun.com/gpu-mem: if the file"),
    ],
)
def test_limits_that_get_no_slice_are_told(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], limits: dict[str, str], says: str
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(objects.pod("p", limits)))
    assert fit(half_full, str(file)) == 1
    assert says in capsys.readouterr().out


def test_cards_of_another_plugin_of_the_cluster_are_not_to_be_rewritten(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half_full.patch("/api/v1/nodes/n1/status", {"status": {"capacity": {"nvidia.com/gpu": "4"}}})
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(objects.pod("p", {"nvidia.com/gpu": "1"})))
    assert fit(half_full, str(file)) == 1
    assert "does not place it\n" in capsys.readouterr().out


@pytest.mark.parametrize("served", [False, True], ids=["limits only", "claims too"])
def test_a_pod_that_asks_by_a_claim_is_to_be_written_in_amounts(
    half_full: Fleet, capsys: pytest.CaptureFixture[str], *, served: bool
) -> None:
    """A pod of the cluster that asks by a claim shows that claims are served there."""
    if served:
        half_full.post(PODS, objects.claiming("there", "c"))
    assert fit(half_full, str(PROJECT / "examples/claim.yaml")) == 1
    said = "notebook-by-claim: asks by a ResourceClaim, which is not read here: write what it asks for"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("prepares", [False, True])
def test_a_pod_whose_claim_exists_is_placed_where_claims_are_prepared(
    fleet: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, prepares: bool
) -> None:
    fleet.node("n1", 2, claims=prepares)
    fleet.post(PODS, objects.claiming("there", "c"))
    made = claim(capacity={"memory": "4Gi", "cores": "15"})
    fleet.post(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", {**made, "metadata": {"name": "slice"}}
    )
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(objects.claiming("p", "slice")))
    assert fit(fleet, str(file)) == int(not prepares)
    said = capsys.readouterr().out
    assert said.startswith(
        f"default/p: {int(prepares)} of 1 fit now (hygon.com/dcu-mem: 4, hygon.com/dcu-cores: 15)"
    )
    assert ("2 cards: 2 on nodes that prepare no ResourceClaims" in said) is not prepares


def test_a_card_family_of_another_plugin_is_no_mistake(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Admission accepts it, and its nodes may be yet to come: until then a pod that asks for both fits none."""
    pods = {"theirs": {}, "both": {MEM: "1"}, "ours": {MEM: "1"}}
    made = [
        objects.pod(name, limits if name == "ours" else {**limits, "vendor.com/npu-mem": "4"})
        for name, limits in pods.items()
    ]
    file = tmp_path / "pods.yaml"
    said = (
        "container main: no node counts vendor.com/npu-mem now; the cards of this installation are hygon.com/dcu,"
        " hygon.com/hcu"
    )
    file.write_text(json.dumps({"items": made}))
    assert fit(half_full, str(file)) == 1
    theirs, both, ours, *_ = capsys.readouterr().out.splitlines()
    assert theirs.startswith("default/theirs: asks for no slice of hygon.com/dcu, hygon.com/hcu")
    assert theirs.endswith(said)
    assert both == f"default/both: {said}"
    assert ours.startswith("default/ours: 1 of 1 fit now")
    file.write_text(json.dumps({"items": [made[0], made[2]]}))
    assert fit(half_full, str(file)) == 0


def test_a_name_that_another_plugin_serves_is_no_mistake(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half_full.patch("/api/v1/nodes/n1/status", {"status": {"capacity": {"hygon.com/dcumem": "4"}}})
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(objects.pod("p", {"hygon.com/dcumem": "4"})))
    assert fit(half_full, str(file)) == 1
    assert "asks for no slice" in capsys.readouterr().out


def test_pods_without_a_slice_do_not_keep_others_from_fitting(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(
        "\n---\n".join(json.dumps(objects.pod(n, of)) for n, of in (("web", {}), ("p", {MEM: "4"})))
    )
    assert fit(half_full, str(file)) == 0
    said = capsys.readouterr().out
    assert "default/web: asks for no slice of" in said
    assert said.rstrip().endswith(". Admission policies and quotas were tried with one pod of each")
    assert set(half_full.pods()) == {"holder"}


def test_a_prefix_that_the_installation_does_not_have_is_refused(
    half_full: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(half_full, "--prefix", "nosuch.com/x", "--mem", "1") == 2
    assert (
        "--prefix: there are no cards nosuch.com/x here: write one of hygon.com/dcu, hygon.com/hcu"
        in capsys.readouterr().err
    )


def test_what_admission_or_a_quota_refuses_does_not_fit(
    half_full: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hard = {"requests.hygon.com/dcu-mem": "17"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "cards"},
        "spec": {"hard": hard},
    }
    half_full.post("/api/v1/namespaces/default/resourcequotas", quota)
    made = [
        objects.pod("guest", {MEM: "1"}, hostPID=True),
        objects.pod("large", {MEM: "4"}),
        objects.pod("p", {MEM: "1"}),
    ]
    file = tmp_path / "pods.yaml"
    file.write_text("\n---\n".join(map(json.dumps, made)))
    assert fit(half_full, str(file)) == 1
    guest, large, fits, *_ = capsys.readouterr().out.splitlines()
    assert guest.startswith("default/guest: the API server refuses it: ")
    assert "hostPID" in guest
    assert large.startswith("default/large: the API server refuses it: ")
    assert "exceeded quota: cards" in large
    assert fits.startswith("default/p: 1 of 1 fit now")
    assert set(half_full.pods()) == {"holder"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--mem", "1"), "Admission policies and quotas are not tried: write the pod into a FILE for that"),
        (("FILE",), "Admission policies and quotas are not tried: pods is forbidden: User"),
    ],
)
def test_without_the_right_to_create_pods_it_says_what_was_not_tried(
    half_full: Fleet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    says: str,
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise from_status(403, "Forbidden", 'pods is forbidden: User "jane" cannot create resource "pods"')

    monkeypatch.setattr(KubeClient, "create", refused)
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(objects.pod("p", {MEM: "4"})))
    assert fit(half_full, *(str(file) if word == "FILE" else word for word in words)) == 0
    assert says in capsys.readouterr().out.splitlines()[-1]
