"""Checks settings beyond their types, before anything is started. Each problem is one line that says what to write."""

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from device_plugin.adapters.http.server import address
from device_plugin.core.app_types import DEFAULT_WEIGHTS, FREE, TYPES, Weights, problem
from device_plugin.core.requests import is_prefix
from device_plugin.node.vendors import host_stack
from device_plugin.node.vendors.host_stack import MOST_MOUNTS
from device_plugin.wiring.settings import (
    ClusterSettings,
    JobsSettings,
    NodeScoreSettings,
    NodeSettings,
    UiSettings,
)

# The address of a page, and the name of a header.
_PUBLIC = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
# The value of a label.
_QUEUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def node(settings: NodeSettings) -> Iterator[str]:
    """The problems of the settings of `vgpu node`."""
    for vendor in settings.enforcement.keys() - settings.prefixes.keys():
        yield f"enforcement: no prefix is set for PCI vendor {vendor!r}: write one of {', '.join(settings.prefixes)}"
    yield from _prefixes(settings.prefixes.values(), '{"1d94": "hygon.com/dcu"}')
    yield from _mounts(settings.mounts, settings.prefixes, settings.state_dir)
    yield from _address("httpListen", settings.http_listen)
    yield from _server(settings.kube.server)


def cluster(settings: ClusterSettings) -> Iterator[str]:
    """The problems of the settings of `vgpu cluster`."""
    yield from _prefixes(settings.prefixes, '["hygon.com/dcu"]')
    yield from _address("extenderListen", settings.extender_listen)
    yield from _address("httpListen", settings.http_listen)
    yield from _server(settings.kube.server)
    yield from _node_score(settings.node_score)
    yield from _private("extenderListen", settings.extender_listen, "binds pods")


def jobs(settings: JobsSettings) -> Iterator[str]:
    """The problems of the settings of `vgpu job-engine`."""
    from device_plugin.core.jobs.rates import read_rates  # not in the node agent, to save memory

    yield from _prefixes(settings.prefixes, '["hygon.com/dcu"]')
    yield from _address("explainListen", settings.explain_listen)
    yield from _address("httpListen", settings.http_listen)
    yield from _server(settings.kube.server)
    if 0 < settings.split_ratio < 1:
        yield f"splitRatio: {settings.split_ratio:g}: write 0, or a number of at least 1, such as 4"
    for queue in settings.resumable_queues:
        if not _QUEUE.fullmatch(queue):
            yield f"resumableQueues: {queue!r} is no name of a queue: write the value of a label, such as nightly"
    for queue, weight in settings.queue_weights.items():
        if not weight > 0:
            yield f"queueWeights: {queue} has weight {weight:g}: write a number greater than 0"
    yield from (f"rates: {problem}" for problem in read_rates("\n".join(settings.rates))[1])
    yield from _private("explainListen", settings.explain_listen, "reads about the jobs of all namespaces")


def ui(settings: UiSettings) -> Iterator[str]:
    """The problems of the settings of `vgpu ui-server`."""
    yield from _prefixes(settings.prefixes, '["hygon.com/dcu"]')
    yield from _address("listen", settings.listen)
    yield from _address("httpListen", settings.http_listen)
    yield from _server(settings.kube.server)
    if bool(settings.tls_cert_file) is not bool(settings.tls_key_file):
        yield "tlsCertFile and tlsKeyFile: write both, or none for plain HTTP"
    if settings.public_url and not _PUBLIC.fullmatch(settings.public_url):
        yield f"publicUrl: {settings.public_url!r}: write http(s)://HOST without a path, such as https://vgpu.example.com"
    for key, name in (
        ("proxyUserHeader", settings.proxy_user_header),
        ("proxyGroupsHeader", settings.proxy_groups_header),
    ):
        if name and not _HEADER.fullmatch(name):
            yield f"{key}: {name!r} is no name of a header: write, for instance, X-Forwarded-User"
    if settings.proxy_user_header and not settings.proxy_secret_file:
        yield (
            "proxySecretFile is missing: whoever reaches the page could name any user in proxyUserHeader; write a file"
            " with a secret that only the proxy knows"
        )
    if settings.proxy_user_header and settings.allow_changes:
        yield "allowChanges: changes need tokens, and a proxy passes none on: leave out allowChanges or proxyUserHeader"
    if (settings.proxy_groups_header or settings.proxy_secret_file) and not settings.proxy_user_header:
        yield "proxyUserHeader is missing: write the header in which the proxy names the user, or leave out the others"


def _private(key: str, listen: str, does: str) -> Iterator[str]:
    host, _, port = listen.rpartition(":")
    if not _loopback(host.strip("[]")):
        yield f"{key}: {listen} is no loopback address, and whoever reaches it {does}: write 127.0.0.1:{port}"


def _node_score(settings: NodeScoreSettings) -> Iterator[str]:
    for name in TYPES:
        given = getattr(settings, name)
        if set(given) != set(Weights.__slots__):
            yield f"nodeScore.{name}: write all of {', '.join(Weights.__slots__)}, such as {DEFAULT_WEIGHTS[name]}"
        elif broken := problem(name, Weights(**given)):
            yield f"nodeScore.{name}: {broken}: write, for instance, {DEFAULT_WEIGHTS[name]}"
    if settings.free not in FREE:
        yield f"nodeScore.free: {settings.free!r}: write {' or '.join(FREE)}"
    if settings.stale_seconds < settings.ask_seconds:
        yield (
            f"nodeScore.staleSeconds: {settings.stale_seconds:g} is less than askSeconds, and loads would be forgotten"
            f" before they are asked for again: write {2 * settings.ask_seconds:g} or more"
        )


def _prefixes(prefixes: Collection[str], example: str) -> Iterator[str]:
    if not prefixes:
        yield f"prefixes: there is none: write at least one, such as {example}"
    for prefix in prefixes:
        if "/" not in prefix:
            yield f"prefixes: {prefix!r} has no domain: write domain/name, such as hygon.com/dcu"
        elif not is_prefix(prefix):
            yield f"prefixes: {prefix!r} names no resource: write domain/name, such as hygon.com/dcu"


def _mounts(mounts: Mapping[str, Sequence[str]], vendors: Collection[str], state: str) -> Iterator[str]:
    for vendor, wanted in mounts.items():
        if vendor not in vendors:
            yield f"mounts: {vendor!r} is no vendor id of prefixes: write one of {', '.join(vendors)}"
        if len(wanted) > MOST_MOUNTS:
            yield f"mounts: {vendor} has {len(wanted)}: write at most {MOST_MOUNTS}"
        for path in wanted:
            if why := host_stack.problem(path, state):
                yield f"mounts: {path!r}: {why}"


def _address(key: str, listen: str) -> Iterator[str]:
    try:
        address(listen)
    except ValueError as error:
        yield f"{key}: {error}"


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _server(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:  # a port out of range, or half of an IPv6 address
        good = False
    if url and not good:
        yield f"kube.server: {url!r}: write http(s)://host:port, such as https://10.0.0.1:6443"
