"""Objects that the story creates on a cluster that stays, as examples for its user."""

from importlib import resources

import yaml

from hack.demo.demo_api import DemoApi
from hack.embedded.person import phase


def leave(api: DemoApi) -> None:
    """Create two notebooks, a pod that fits nowhere and a Job in a queue. Raises NotInTimeError."""
    text = resources.files("hack.demo").joinpath("left.yaml").read_text(encoding="utf-8")
    for manifest in yaml.safe_load_all(text):
        api.create(manifest)
    api.until("what is left to run", lambda: [phase(pod) for pod in api.pods()].count("Running") == 4)
