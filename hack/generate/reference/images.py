"""The reference page of the images that an installation needs."""

from collections.abc import Iterator

from hack.generate.reference import tables
from hack.releases import images
from hack.testbed.images import ours

# The chart's value for the name of each image.
VALUES = {
    ours.NAME: "image.repository",
    ours.SIMULATED: "simulatedCards.repository",
    images.SCHEDULER: "scheduler.repository",
}


def page() -> str:
    """Every image, what needs it, and how to name another registry."""
    return tables.page(
        "Images",
        "`manifests/`",
        "The images that the manifests name. With kustomize an entry of `images` in your overlay names another"
        " registry; with Helm the value below does. `images.txt` of a release lists those that real cards need.",
        tables.table(("image", "named by", "value of the chart"), _rows()),
        "A kube-scheduler must not be newer than your API server: set `scheduler.tag`, or `newTag` in your overlay.",
    )


def _rows() -> Iterator[tuple[str, str, str]]:
    for image in images.needed():
        named = ", ".join(f"`{name}`" for name in image.named_by)
        yield f"`{image.reference}`", named, f"`{VALUES[image.name]}`"
