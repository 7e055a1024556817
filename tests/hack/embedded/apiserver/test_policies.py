"""The evaluator of admission policies, on policies of its own."""

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
import yaml

from device_plugin.core.contract.annotations import KEYS, MAX_CARDS, MAX_COMPUTE_UNITS, PREFIX
from device_plugin.core.jobs import reading
from device_plugin.core.requests import ANNOTATIONS, DEFAULT_PREFIXES, LABELS
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.apiserver.errors import StatusError
from hack.embedded.apiserver.policies import load
from hack.embedded.apiserver.resources import NAMESPACES, PODS, ApiResource, RequestTarget
from hack.embedded.apiserver.server import job_policy_files, policy_files


def policy(tmp_path: Path, expression: str, *, resources: str = "[pods]", extra: str = "") -> list[Path]:
    """One validating policy with one validation."""
    text = dedent(f"""\
        kind: ValidatingAdmissionPolicy
        metadata: {{name: p}}
        spec:
          matchConstraints:
            resourceRules:
            - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: {resources}}}
          validations: [{{expression: {expression!r}, message: "no"}}]
        """)
    text += indent(extra, "  ")
    text += dedent("""\
        ---
        kind: ValidatingAdmissionPolicyBinding
        metadata: {name: b}
        spec:
          policyName: p
        """)
    (tmp_path / "policy.yaml").write_text(text)
    return [tmp_path / "policy.yaml"]


def create(server: EmbeddedApiServer, name: str = "x", resource: ApiResource = PODS) -> str:
    """Create an object; "ok", or the refusal."""
    value: dict[str, Any] = {"metadata": {"name": name}}
    if resource is PODS:
        value["spec"] = {"containers": [{"name": "main"}]}
    try:
        server.registry.create("jane", RequestTarget(resource, "default"), value)
    except StatusError as error:
        return str(error)
    return "ok"


DENIED = """pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: """


def test_a_validation_that_holds_lets_pass_and_one_that_does_not_says_its_message(tmp_path: Path) -> None:
    server = EmbeddedApiServer(policy(tmp_path, 'object.metadata.name != "x"'))
    assert create(server, "y") == "ok"
    assert create(server) == DENIED + "no"


def test_who_asks_is_known(tmp_path: Path) -> None:
    server = EmbeddedApiServer(policy(tmp_path, 'request.userInfo.username == "jane"'))
    assert create(server) == "ok"


def test_other_resources_are_not_meant(tmp_path: Path) -> None:
    server = EmbeddedApiServer(policy(tmp_path, "false", resources="[nodes, pods/status]"))
    assert create(server) == "ok"


def test_a_policy_may_be_for_namespaces_with_a_label(tmp_path: Path) -> None:
    (file,) = policy(tmp_path, "false")
    selector = 'matchConstraints:\n    namespaceSelector: {matchLabels: {strict: "true"}}'
    file.write_text(file.read_text().replace("matchConstraints:", selector))
    server = EmbeddedApiServer([file])
    assert create(server) == "ok"
    server.registry.update(
        ADMIN, RequestTarget(NAMESPACES, "", "default"),
        lambda old: old | {"metadata": old["metadata"] | {"labels": {"strict": "true"}}}, patch=True,
    )  # fmt: skip
    assert create(server, "y").endswith("no")


def test_an_expression_that_fails_refuses(tmp_path: Path) -> None:
    server = EmbeddedApiServer(policy(tmp_path, "object.spec.absent == 1"))
    assert create(server).startswith(DENIED + "expression failed")


def test_with_failure_policy_ignore_it_lets_pass(tmp_path: Path) -> None:
    server = EmbeddedApiServer(policy(tmp_path, "object.spec.absent == 1", extra="failurePolicy: Ignore\n"))
    assert create(server) == "ok"


def test_a_patch_may_name_a_key_with_a_slash(tmp_path: Path) -> None:
    (file,) = policy(tmp_path, "true")
    patch = """
      mutations:
      - patchType: JSONPatch
        jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/labels/a.b~1c", value: "d"}]'}
    """
    validations, _, binding = file.read_text().partition("\n---\n")
    head = validations.replace("Validating", "Mutating").partition("  validations:")[0]
    file.write_text(f"{head}{indent(dedent(patch), '  ')}\n---\n{binding.replace('Validating', 'Mutating')}")
    server = EmbeddedApiServer([file])
    made = {"metadata": {"name": "x", "labels": {"e": "f"}}, "spec": {"containers": [{"name": "main"}]}}
    found = server.registry.create("jane", RequestTarget(PODS, "default"), made)
    assert found.value["metadata"]["labels"] == {"a.b/c": "d", "e": "f"}


def test_the_prefixes_of_admission_are_those_of_the_allocator() -> None:
    (config,) = (item for item in load(policy_files()).objects if item["kind"] == "ConfigMap")
    assert config["data"]["prefixes"].split(",") == list(DEFAULT_PREFIXES)


# Deletions and evictions of everybody's pods meet these: an error in them must keep no pod from going.
FAIL_OPEN = {"vgpu-deletions", "vgpu-evictions"}


def test_every_policy_has_a_binding_and_fails_closed_unless_it_meets_deletions() -> None:
    files = [*policy_files(), *job_policy_files()]
    documents = [item for path in files for item in yaml.safe_load_all(path.read_text())]
    policies = [item for item in documents if item["kind"].endswith("AdmissionPolicy")]
    bound = {item["spec"]["policyName"] for item in documents if item["kind"].endswith("Binding")}
    assert {item["metadata"]["name"] for item in policies} == bound
    failing = {item["metadata"]["name"]: item["spec"]["failurePolicy"] for item in policies}
    assert failing == {name: "Ignore" if name in FAIL_OPEN else "Fail" for name in bound}


def test_a_pod_may_have_the_keys_that_the_code_knows() -> None:
    (requests,) = (policy for policy in load(policy_files()).policies if policy.name == "vgpu-requests")
    variables = dict(requests.variables)
    known = [key for name in ("labels", "annotations", "ours") for key in variables[name].evaluate({})]
    assert sorted(map(str, known)) == _keys_of("Pod")
    for name, keys in (("labels", LABELS), ("annotations", ANNOTATIONS)):
        assert tuple(map(str, variables[name].evaluate({}))) == tuple(sorted(keys))


def test_a_job_may_have_the_keys_that_the_code_knows() -> None:
    (jobs,) = (policy for policy in load(job_policy_files()).policies if policy.name == "vgpu-jobs")
    variables = dict(jobs.variables)
    known = {
        name: [str(key) for key in variables[f"{name}Keys"].evaluate({})] for name in ("label", "annotation")
    }
    assert known == {"label": list(reading.LABELS), "annotation": list(reading.ANNOTATIONS)}
    ours = list(map(str, variables["ours"].evaluate({})))
    assert ours == list(reading.OURS)
    assert sorted(known["label"] + known["annotation"] + ours) == _keys_of("Job")
    of_pods = {*LABELS, *ANNOTATIONS} - {*reading.LABELS, *reading.ANNOTATIONS}
    assert set(map(str, variables["podKeys"].evaluate({}))) == of_pods


def _keys_of(kind: str) -> list[str]:
    """Our keys on objects of this kind, as the reference page has them."""
    return sorted(key.name for key in KEYS if key.object == kind and key.name.startswith(PREFIX))


def test_what_is_refused_beyond_is_what_an_inventory_cannot_have() -> None:
    (requests,) = (policy for policy in load(policy_files()).policies if policy.name == "vgpu-requests")
    text = dict(requests.variables)["most"].text
    assert f'"={MAX_CARDS}"' in text
    assert f'"-cores={MAX_COMPUTE_UNITS}"' in text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Deployment\nmetadata: {name: x}\n", "Deployment is no kind of admission manifest"),
        (
            "kind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n"
            "spec: {matchConstraints: {resourceRules: []}, validations: [{expression: 'a ++'}]}\n"
            "---\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p}\n",
            "does not compile",
        ),
        (
            "kind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n"
            "spec: {matchConstraints: {resourceRules: []}, paramKind: {apiVersion: v1, kind: ConfigMap}}\n"
            "---\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p}\n",
            "has parameters",
        ),
        (
            "kind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n"
            "spec: {matchConstraints: {resourceRules: [], namespaceSelector: {matchExpressions: []}}}\n"
            "---\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p}\n",
            "has a namespaceSelector that is not served here: write matchLabels",
        ),
        (
            "kind: MutatingAdmissionPolicy\nmetadata: {name: p}\n"
            "spec: {matchConstraints: {resourceRules: []}, mutations: [{patchType: ApplyConfiguration}]}\n"
            "---\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec: {policyName: p}\n",
            "write a JSONPatch",
        ),
    ],
)
def test_a_file_that_cannot_be_evaluated_is_an_error_at_start(
    tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        load([tmp_path / "bad.yaml"])
