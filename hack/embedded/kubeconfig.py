"""The kubeconfig of a client of the embedded API server."""

import json


def kubeconfig_text(url: str, token: str, name: str = "embedded") -> str:
    """The text of a kubeconfig with one context, `name`, for the server at `url` and the user of this token."""
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": {"token": token}}],
    }  # fmt: skip
    return f"{json.dumps(config, indent=2)}\n"
