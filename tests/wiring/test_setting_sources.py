"""Settings: precedence, and bad input that names its key and its source."""

import argparse
import tomllib
from pathlib import Path

import pytest

from device_plugin.core.app_types import DEFAULT_WEIGHTS, Weights
from device_plugin.wiring import setting_sources
from device_plugin.wiring.commands import main
from device_plugin.wiring.settings import KINDS, ClusterSettings, NodeSettings, SettingsError
from vgpu_runtime.paths import SOURCES

MANY_PATHS = "[" + ",".join(f'"/opt/{n}"' for n in range(17)) + "]"


def load(argv: list[str], environ: dict[str, str]) -> NodeSettings:
    parser = argparse.ArgumentParser()
    setting_sources.add_flags(parser, NodeSettings)
    return setting_sources.load(NodeSettings, vars(parser.parse_args(argv)), environ)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text("version: v1\nnodeName: from-file\nmemUnitMiB: 512\nkube:\n  server: http://file\n")
    return path


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(file: Path) -> None:
    argv = ["--config", str(file), "--node-name", "from-flag"]
    loaded = load(argv, {"VGPU_NODE_NAME": "from-env", "VGPU_KUBE_SERVER": "http://env"})
    assert loaded.node_name == "from-flag"
    assert loaded.kube.server == "http://env"
    assert loaded.mem_unit_mib == 512
    assert loaded.state_dir == "/var/lib/vgpu"


def test_lists_and_maps_are_given_as_yaml() -> None:
    loaded = load(["--exclude-cards", "[a, b]"], {"VGPU_PREFIXES": "{1d94: vendor.com/dcu}"})
    assert loaded.exclude_cards == ["a", "b"]
    assert loaded.prefixes == {"1d94": "vendor.com/dcu"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: v1\nnodename: a\n", "unknown field `nodename`.*The settings are: nodeName, root"),
        ("version: v1\nkube: {sever: a}\n", "unknown field `sever`"),
        ("version: v1\nmemUnitMiB: many\n", "memUnitMiB: write a whole number, not text"),
        ("version: v1\nmemUnitMiB: 0\n", "memUnitMiB: write a whole number >= 1"),
        ("version: v2\n", "write `version: v1` \\(found 'v2'\\)"),
        ("nodeName: a\n", "write `version: v1` \\(found None\\)"),
        ("- a\n", "expected `key: value` lines"),
        ("a: [\n", "not YAML: line 2: "),
        ("version: v1\nnodeName: a\nnodeName: b\n", "not YAML: line 3: nodeName is written twice"),
        ("version: v1\nkube: {server: 'http://a', server: 'http://b'}\n", "line 2: server is written twice"),
        ("version: v1\n[a]: b\n", "not YAML: line 2: "),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_cause(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as error:
        load(["--config", str(path)], {})
    assert str(path) in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing\.yaml: No such file"):
        load([], {"VGPU_CONFIG": str(tmp_path / "nothing.yaml")})


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^VGPU_MEM_UNIT_MIB: memUnitMiB: write a whole number"):
        load([], {"VGPU_MEM_UNIT_MIB": "much"})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("node --prefixes foo", '--prefixes: \'foo\': write it as JSON, such as {"1d94": "hygon.com/dcu"}'),
        (
            "node --prefixes {}",
            'prefixes: there is none: write at least one, such as {"1d94": "hygon.com/dcu"}',
        ),
        (
            'node --prefixes {"1d94":"foo"}',
            "prefixes: 'foo' has no domain: write domain/name, such as hygon.com/dcu",
        ),
        (
            'node --mounts {"beef":["/opt/x"]}',
            "mounts: 'beef' is no vendor id of prefixes: write one of 1d94",
        ),
        (
            'node --mounts {"1d94":["opt/hyhal"]}',
            "mounts: 'opt/hyhal': write an absolute path without . or ..",
        ),
        ('node --mounts {"1d94":["/etc"]}', "mounts: '/etc': it is at, above or below /etc/"),
        (
            'node --mounts {"1d94":["/opt/a:/etc"]}',
            "mounts: '/opt/a:/etc': '/etc': it is at, above or below /etc/",
        ),
        ('node --mounts {"1d94":["/dev/mem"]}', "of /dev only /dev/dri/cardN"),
        (f'node --mounts {{"1d94":{MANY_PATHS}}}', "mounts: 1d94 has 17: write at most 16"),
        ("node --exclude-cards GPU-1", "--exclude-cards: 'GPU-1': write it as JSON"),
        ("node --http-listen 0.0.0.0:65536", "httpListen: port 65536 is out of range: write 0 to 65535"),
        ("node --http-listen 9400", "httpListen: '9400' is no address: write host:port"),
        ("cluster --prefixes foo", "--prefixes: 'foo': write it as JSON, such as [\"hygon.com/dcu\"]"),
        ("cluster --prefixes []", 'prefixes: there is none: write at least one, such as ["hygon.com/dcu"]'),
        ("cluster --prefixes [foo]", "prefixes: 'foo' has no domain"),
        ("cluster --prefixes [a/b/c]", "prefixes: 'a/b/c' names no resource"),
        ("cluster --extender-listen 127.0.0.1:65536", "extenderListen: port 65536 is out of range"),
        ("cluster --extender-listen :9401", "extenderListen: :9401 is no loopback address"),
        ("cluster --extender-listen 0.0.0.0:9401", "write 127.0.0.1:9401"),
        ("cluster --kube-server 10.0.0.1:6443", "kube.server: '10.0.0.1:6443': write http(s)://host:port"),
        ("cluster --kube-server ftp://a:1", "kube.server: 'ftp://a:1': write http(s)://host:port"),
        (
            'cluster --node-score-gpu {"gpu":0.5,"cpu":0.3,"memory":0.1,"disk":0.1}',
            "nodeScore.gpu: {gpu: 0.5, cpu: 0.3, memory: 0.1, disk: 0.1} breaks the rule"
            " `gpu > cpu + memory + disk`: write, for instance, {gpu: 0.6, cpu: 0.2, memory: 0.1, disk: 0.1}",
        ),
        (
            'cluster --node-score-cpu {"gpu":0.5}',
            "nodeScore.cpu: write all of gpu, cpu, memory, disk, such as",
        ),
        (
            'cluster --node-score-memory {"gpu":0,"cpu":0.2,"memory":0.7,"disk":0.1,"net":0}',
            "nodeScore.memory: write all of gpu, cpu, memory, disk, such as",
        ),
        (
            "cluster --node-score-most-load 1.5",
            "--node-score-most-load: nodeScore.mostLoad: write a number <= 1.0",
        ),
        (
            'node --enforcement {"1002":"kill"}',
            "enforcement: no prefix is set for PCI vendor '1002': write one of 1d94",
        ),
        ("ui-server --tls-cert-file /a", "tlsCertFile and tlsKeyFile: write both, or none"),
        (
            "ui-server --public-url https://a/b",
            "publicUrl: 'https://a/b': write http(s)://HOST without a path",
        ),
        (
            "ui-server --proxy-user-header X-User",
            "proxySecretFile is missing: whoever reaches the page could name any",
        ),
        ("ui-server --proxy-user-header X:User", "proxyUserHeader: 'X:User' is no name of a header"),
        ("ui-server --proxy-secret-file /a", "proxyUserHeader is missing"),
        (
            "ui-server --proxy-user-header X-User --proxy-secret-file /a --allow-changes true",
            "allowChanges: changes need tokens, and a proxy passes none on",
        ),
        ("ui-server --listen 9406", "listen: '9406' is no address: write host:port"),
        ("cluster --covered-pods remove", "coveredPods: unknown value 'remove': write report or delete"),
        ("cluster --node-score-free amount", "nodeScore.free: 'amount': write share or count"),
        ("cluster --node-score-stale-seconds 3", "nodeScore.staleSeconds: 3 is less than askSeconds"),
        ("job-engine --prefixes [foo]", "prefixes: 'foo' has no domain"),
        ("job-engine --http-listen 9403", "httpListen: '9403' is no address: write host:port"),
        ("job-engine --explain-listen 0.0.0.0:9404", "write 127.0.0.1:9404"),
        ("job-engine --kube-server ftp://a:1", "kube.server: 'ftp://a:1': write http(s)://host:port"),
        ("job-engine --use 0", "use: write a number > 0"),
        (
            'job-engine --rates ["resnet50"]',
            "rates: line 1 of the table of rates is 'resnet50': write MODEL CARD SPEED",
        ),
        ("job-engine --split-ratio 0.5", "splitRatio: 0.5: write 0, or a number of at least 1, such as 4"),
        (
            'job-engine --resumable-queues [""]',
            "resumableQueues: '' is no name of a queue: write the value of a label",
        ),
        ("job-engine --resumable-queues nightly", "write it as JSON, such as"),
        ("job-engine --resumable yes!", "resumable: write true or false"),
        ("job-engine --min-runtime-seconds 86401", "minRuntimeSeconds: write a number <= 86400"),
        ("job-engine --young-seconds -1", "youngSeconds: write a number >= 0"),
        ('job-engine --queue-weights {"a":0}', "queueWeights: a has weight 0: write a number greater than 0"),
        (
            "cluster --kube-server https://a:99999",
            "kube.server: 'https://a:99999': write http(s)://host:port",
        ),
    ],
)
def test_what_a_service_cannot_work_with_is_said_with_what_to_write(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "node": ["--node-name=a"],
        "cluster": ["--pod-name=a"],
        "job-engine": ["--pod-name=a"],
        "ui-server": [],
    }
    assert main([*words.split(), *names[words.split()[0]]]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.8.0.1:9401", "[::1]:9401", "localhost:9401"])
def test_any_loopback_address_will_do(listen: str) -> None:
    environ = {"VGPU_EXTENDER_LISTEN": listen, "VGPU_KUBE_SERVER": "https://[::1]:6443/k8s"}
    assert setting_sources.load(ClusterSettings, {}, environ).extender_listen == listen


def test_weights_of_the_file_reach_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    weights = "{gpu: 0, cpu: 0.5, memory: 0.3, disk: 0.2}"
    path.write_text(f"version: v1\nnodeScore:\n  cpu: {weights}\n  mostLoad: 0.8\n  free: count\n")
    scoring = setting_sources.load(ClusterSettings, {"config": str(path)}, {}).node_score.scoring()
    assert scoring.weights == {**DEFAULT_WEIGHTS, "cpu": Weights(0, 0.5, 0.3, 0.2)}
    assert (scoring.most_memory, scoring.most_load, scoring.counts) == (0.9, 0.8, True)


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    project = tomllib.loads((SOURCES.parent / "pyproject.toml").read_text())["project"]
    assert (ended.value.code, capsys.readouterr().out) == (0, f"vgpu {project['version']}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_has_a_help_text(kind: type[NodeSettings]) -> None:
    parser = argparse.ArgumentParser()
    setting_sources.add_flags(parser, kind)
    assert all(action.help for action in parser._actions)


@pytest.mark.parametrize(
    ("command", "key"), [("node", "nodeName"), ("cluster", "podName"), ("job-engine", "podName")]
)
def test_a_service_without_its_name_says_how_to_give_it(
    command: str, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VGPU_NODE_NAME", raising=False)
    monkeypatch.delenv("VGPU_POD_NAME", raising=False)
    assert main([command]) == 2
    assert f"{key} is missing: give --" in capsys.readouterr().err
