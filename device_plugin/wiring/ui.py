"""Builds the page for a team: one follower of the cluster, and a server that shows each person a part of it.

The page reads the cluster with its own account, and asks the API server what each person may see. It writes nothing;
with `allowChanges` it passes changes on, with the token of the person who makes them.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from device_plugin.adapters.http import server as http
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import from_settings
from device_plugin.adapters.metrics import Exposition
from device_plugin.adapters.probes import probes
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.follow import ClusterFollower
from device_plugin.cli.ui.held import HeldUses
from device_plugin.cli.ui.server import Answer
from device_plugin.cli.ui.team import reviews
from device_plugin.cli.ui.team.changes import PersonalChanges
from device_plugin.cli.ui.team.places import QueuePlaces
from device_plugin.cli.ui.team.proxy import ProxyLogin
from device_plugin.cli.ui.team.rights import Rights
from device_plugin.cli.ui.team.server import TeamServer, TlsFiles
from device_plugin.cli.ui.team.sessions import Sessions
from device_plugin.cli.ui.team.uses import TeamUses
from device_plugin.cli.ui.usage import CardUse, NodeUse
from device_plugin.state.claims import ServedClaims
from device_plugin.wiring.build_info import with_build_info
from device_plugin.wiring.commands import say_listening
from device_plugin.wiring.settings import SettingsError, UiSettings
from device_plugin.wiring.threads import Threads

COMPONENT = "vgpu-ui"
# Seconds for one call: the list of pods of a large cluster takes seconds.
TIMEOUT_SECONDS = 30.0


class TeamPage:
    """The page for a team. `run` serves until `stop` is set, or the server fails."""

    def __init__(self, settings: UiSettings, stop: threading.Event) -> None:
        kube = settings.kube
        endpoint = from_settings(kube.server, kube.token_file, kube.ca_file, kube.kubeconfig)
        self._settings = settings
        self._endpoint = endpoint
        self._stop = stop
        self._threads = Threads(stop)
        # Questions about persons must not wait for lists, nor for as long.
        self._lists = KubeClient(endpoint, COMPONENT, timeout=TIMEOUT_SECONDS)
        self._asks = KubeClient(endpoint, COMPONENT)
        self._prometheus = Prometheus(settings.prometheus) if settings.prometheus else None
        self._entries = PageEntries()
        self._follower = ClusterFollower(
            self._lists, self._entries, settings.prefixes, scheduler=settings.scheduler_name, namespace="",
            only_namespace=True, served=ServedClaims(settings.scheduler_name, settings.mem_unit_mib),
        )  # fmt: skip

    def run(self) -> int:
        """Serve the page for a team until `stop` is set; returns the exit status."""
        with ExitStack() as stack:
            stack.callback(self._lists.close)
            stack.callback(self._asks.close)
            server = self._server()
            # Closed before the threads are waited for, because a server in a thread ends only so.
            stack.callback(server.server_close)
            operations = self._operations(stack)
            stack.callback(self._threads.join)
            stack.callback(server.close)
            stack.callback(self._follower.close)
            uses = TeamUses(self._asks, self._settings.agent_namespace, self._prometheus)
            held = HeldUses(uses, self._entries, self._follower.held, server.is_open)
            stack.callback(held.close)
            places = QueuePlaces(
                self._asks, self._settings.agent_namespace, self._follower.take_places, server.is_open
            )
            stack.callback(places.close)
            self._threads.spawn("page", partial(server.serve_forever, 0.1))
            self._follower.start()
            held.start()
            places.start()
            say_listening(f"page={self._settings.listen.rpartition(':')[0]}:{server.port} http={operations}")
            self._stop.wait()
        return 1 if self._threads.failed else 0

    def _server(self) -> TeamServer:
        """Returns the server of the page, whose port is open. Raises SettingsError, PrometheusError."""
        settings, clock = self._settings, time.monotonic
        sessions = Sessions(
            lambda token: reviews.owner_of(self._asks, token, settings.audiences), clock,
            session_seconds=settings.session_seconds, idle_seconds=settings.idle_seconds,
        )  # fmt: skip
        rights = Rights(partial(reviews.may_list, self._asks), clock)
        answers = self._answers()
        proxy = None
        if settings.proxy_user_header:
            secret = _secret(Path(settings.proxy_secret_file))
            proxy = ProxyLogin(settings.proxy_user_header, settings.proxy_groups_header, secret)
        listen = http.address(settings.listen)
        try:
            tls = None
            if settings.tls_cert_file:
                tls = TlsFiles(Path(settings.tls_cert_file), Path(settings.tls_key_file))
            changes = PersonalChanges(self._endpoint) if settings.allow_changes else None
            return TeamServer(
                listen, self._entries, answers, sessions=sessions, rights=rights, clock=clock, proxy=proxy, tls=tls,
                public_url=settings.public_url, changes=changes,
            )  # fmt: skip
        except OSError as error:
            raise SettingsError(f"cannot serve the page on {settings.listen}: {error}") from error

    def _answers(self) -> Mapping[str, Answer]:
        """Returns the functions that answer /use and /day from Prometheus; empty without one.

        Their answers do not depend on the person who asks. Also sets the page's entry that says whether use and changes
        are offered.
        """
        source = self._prometheus
        self._entries.put(
            "about", {"page": {"use": source is not None, "changes": self._settings.allow_changes}}
        )
        if source is None:
            return {}
        return {"/use": CardUse(source, self._entries).answer, "/day": NodeUse(source, self._entries).answer}

    def _operations(self, stack: ExitStack) -> str:
        """Start the server of probes and metrics; returns its address."""
        listen = self._settings.http_listen
        metrics = Exposition(with_build_info("ui", tuple))
        app = probes(self._why_not_alive, self._why_not_ready, metrics)
        try:
            return stack.enter_context(http.Server(app, listen, silence=http.UNTRUSTED_SECONDS)).address
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot listen on {listen}: {error}") from error

    def _why_not_alive(self) -> str:
        return "a part of the page stands still" if "broken" in self._entries.keys("notice") else ""

    def _why_not_ready(self) -> str:
        return "" if "cluster" in self._entries.keys("about") else "the cluster was not read yet"


def _secret(file: Path) -> str:
    """Returns the proxy's secret. Raises SettingsError if the file cannot be read, or has fewer than 16 characters."""
    try:
        found = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"proxySecretFile {file}: {getattr(error, 'strerror', None) or error}") from error
    if len(found) < 16:
        raise SettingsError(
            f"proxySecretFile {file}: write at least 16 characters, such as those of `openssl rand -hex 32`"
        )
    return found


def run(settings: UiSettings, stop: threading.Event) -> int:
    """Serve the page until `stop` is set; prints its addresses and returns the exit status.

    Raises SettingsError, EndpointError, PrometheusError.
    """
    return TeamPage(settings, stop).run()
