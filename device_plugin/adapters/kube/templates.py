"""Decodes the pod that a manifest or a controller's template would make, and the constraints on its node."""

from typing import Any, NamedTuple

import msgspec

from device_plugin.adapters.kube import structs
from device_plugin.adapters.kube.constraints import node_constraints
from device_plugin.adapters.kube.pods import Resources, template_pod
from device_plugin.adapters.kube.structs import DecodeError, decoder
from device_plugin.core.node_constraints import NodeConstraints
from device_plugin.core.pods import Pod

_decoded = decoder(structs.RawTemplate)


class TemplatePod(NamedTuple):
    """A pod that a template makes, without a name, and the constraints on its node."""

    pod: Pod
    nodes: NodeConstraints


def read_template(template: dict[str, Any], namespace: str, resources: Resources = None) -> TemplatePod:
    """Returns the pod of a template or of a Pod, given as JSON. Raises DecodeError."""
    kept = {key: template[key] for key in ("metadata", "spec") if key in template}
    try:
        text = msgspec.json.encode(kept)
    # A key that is no text, such as `on` without quotes in YAML, or half of a surrogate pair.
    except (TypeError, UnicodeEncodeError) as error:
        raise DecodeError(f"it cannot be written as JSON: {error}") from error
    raw = _decoded(text)
    pod = template_pod(namespace, raw, resources)
    asked = sorted({name for container in pod.containers for name in container.limits})
    return TemplatePod(pod, node_constraints(raw.spec, asked))
