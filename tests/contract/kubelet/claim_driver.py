"""A DRA driver, as small as one can be: the behaviours of the kubelet are tested against it."""

# ruff: noqa: N802, ARG002 - method names and parameters are the protocol's

import json
from concurrent import futures
from typing import Any

import grpc

from device_plugin.adapters.kubelet.pb import dra_pb2 as pb
from device_plugin.adapters.kubelet.pb import dra_pb2_grpc as rpc
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2 as registration_pb
from device_plugin.adapters.kubelet.pb import pluginregistration_pb2_grpc as registration_rpc
from tests.contract.kubelet.late_plugin import Folders

KIND = "lab.io/claim"


class ClaimDriver(rpc.DRAPluginServicer, registration_rpc.RegistrationServicer):
    """Serves the driver `name`; the container finds `CLAIM=<uid>` in its environment.

    `refusal` is what Prepare answers instead, `stuck` what Unprepare does.
    """

    def __init__(self, folders: Folders, name: str) -> None:
        self.name = name
        self.path = folders.drivers / f"{name}-reg.sock"
        self.prepared: list[str] = []
        self.unprepared: list[str] = []
        self.registered: list[bool] = []
        self.refusal = ""
        self.stuck = ""
        self.versions = ["v1.DRAPlugin"]
        self._folders = folders
        self._server: grpc.Server | None = None

    def serve(self) -> None:
        """Listen; the kubelet registers the driver because it finds the socket."""
        self.path.unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(16))
        rpc.add_DRAPluginServicer_to_server(self, self._server)
        registration_rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def stop(self) -> None:
        """Stop serving; gRPC removes the socket."""
        if self._server is not None:
            self._server.stop(0).wait()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        self.stop()
        for path in self._folders.cdi.glob(f"lab-{self.name}-*.json"):
            path.unlink()

    def GetInfo(self, request: Any, context: Any) -> registration_pb.PluginInfo:
        return registration_pb.PluginInfo(type="DRAPlugin", name=self.name, supported_versions=self.versions)

    def NotifyRegistrationStatus(
        self, request: registration_pb.RegistrationStatus, context: Any
    ) -> registration_pb.RegistrationStatusResponse:
        self.registered.append(request.plugin_registered)
        return registration_pb.RegistrationStatusResponse()

    def NodePrepareResources(self, request: Any, context: Any) -> pb.NodePrepareResourcesResponse:
        answer = pb.NodePrepareResourcesResponse()
        for claim in request.claims:
            self.prepared.append(claim.name)
            if self.refusal:
                answer.claims[claim.uid].error = self.refusal
                continue
            self._write(claim.uid)
            device = answer.claims[claim.uid].devices.add(pool_name="n1", device_name="card-0")
            device.request_names.append("slice")
            device.cdi_device_ids.append(f"{KIND}={claim.uid}")
        return answer

    def NodeUnprepareResources(self, request: Any, context: Any) -> pb.NodeUnprepareResourcesResponse:
        answer = pb.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            self.unprepared.append(claim.name)
            answer.claims[claim.uid].error = self.stuck
        return answer

    def _write(self, uid: str) -> None:
        edits = {"env": [f"CLAIM={uid}"]}
        spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": uid, "containerEdits": edits}]}
        partial = self._folders.cdi / f".{uid}.tmp"
        partial.write_text(json.dumps(spec))
        partial.rename(self._folders.cdi / f"lab-{self.name}-{uid}.json")
