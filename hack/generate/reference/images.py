"""The reference page of the images that an installation needs."""

from collections.abc import Iterator

from hack.generate.reference import tables
from hack.releases import images
from hack.testbed.images import ours

# By image, the chart's value that sets the image's name.
VALUES = {
    ours.NAME: "image.repository",
    ours.SIMULATED: "simulatedCards.repository",
    images.SCHEDULER: "scheduler.repository",
}


def page() -> str:
    """The page: every image, the workloads that need it, and the value that names another registry."""
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
