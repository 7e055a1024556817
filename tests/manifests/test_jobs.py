"""Admission and the engine's reader say the same of Jobs: what one refuses, the other refuses too."""

import random
from typing import Any

import pytest

from device_plugin.core.batch import Job
from device_plugin.core.errors import RequestError
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.admission import ADMIN
from hack.embedded.apiserver.errors import StatusError
from hack.embedded.apiserver.resources import JOBS, RequestTarget
from hack.embedded.apiserver.server import job_policy_files
from tests.builders.cards import FAMILY, MEM
from tests.builders.written_jobs import as_object, job, read, template

NUMBERS = ("1", "2", "4", "8", "1024", "0", "1025", "two", "", "04")
TIMES = ("8h", "90m", "1h30m", "2d", "0h", "8 hours", "", "8")
LABELS = {
    "queue": ("default",) * 6 + ("",), "group": ("g", "h", ""), "role": ("master", "ps", "trainer", "worker"),
    "split-of": ("n", ""), "part": ("0", "3", "three"), "group-size": ("2",), "min-replicas": ("2",),
}  # fmt: skip
ANNOTATIONS = {
    "min-replicas": NUMBERS, "max-replicas": NUMBERS, "split": ("ordered", "any", "sorted"),
    "widths": ("1,2,4,8", "4", "2,4", "8,16", "1,2,4,8,", "4,2", "0,1"),
    "group-jobs": NUMBERS, "split-ratio": ("4", "2.5", "0.5", "4."),
    "barrier": ("true", "false", "yes"), "samples": NUMBERS, "epochs": NUMBERS, "duration": TIMES,
    "model": ("resnet50", "res net", ""), "app-type": ("gpu", "cpu", "tpu"), "card-model": ("Z100", "K100"),
    "expected-duration": TIMES, "checkpoint-seconds": NUMBERS,
    "resumable": ("true", "false", "yes"), "min-runtime": ("2h", "24h", "1d", "0h", "2 hours", ""),
    "hold": ("true", "false", "yes", ""), "resize-drop": NUMBERS, "queue": ("default",),
    "colour": ("red",),
    "kueue.x-k8s.io/elastic-job": ("true", "false"),
}  # fmt: skip


def drawn(draw: random.Random) -> Job:
    """A Job of a user who gets most things right."""
    width = draw.choice((1, 2, 4, 4, 4, 8, 0, 1025))
    labels = {"queue": draw.choice(LABELS["queue"])}
    labels |= {
        key: draw.choice(texts) for key, texts in LABELS.items() if key != "queue" and draw.random() < 0.1
    }
    if draw.random() < 0.1:
        labels["kueue.x-k8s.io/queue-name"] = "theirs"
    annotations = {key: draw.choice(texts) for key, texts in ANNOTATIONS.items() if draw.random() < 0.15}
    indexed = draw.random() < 0.8
    pods: dict[str, Any] = {
        "limits": draw.choice(({FAMILY: "1"}, {FAMILY: "2"}, {MEM: "4"}, {})),
        "labels": draw.choice(
            ({}, {"group": "g"}, {"group": "g", "group-size": draw.choice(("2", "4", "8"))})
        ),
        "annotations": draw.choice(({}, {}, {"card-model": "Z100"})),
    }
    return job(
        labels, annotations, name="train", parallelism=width, indexed=indexed, template=template(**pods),
        completions=draw.choice((width, width, width, 8) if indexed else (width, 8, None)),
        replacement=draw.choice(("Failed", "Failed", "Failed", "TerminatingOrFailed")),
        restart_policy=draw.choice(("Never", "Never", "Never", "OnFailure")),
        success_policy=indexed and draw.random() < 0.05,
        backoff_limit_per_index=1 if indexed and draw.random() < 0.05 else None,
        managed_by="example.com/other" if draw.random() < 0.05 else "", suspend=True,
    )  # fmt: skip


def refusal(server: EmbeddedApiServer, wanted: Job) -> str:
    """What the API server says; empty if it takes the Job."""
    body = {key: value for key, value in as_object(wanted).items() if key in ("metadata", "spec")}
    target = RequestTarget(JOBS, "default")
    try:
        server.registry.create(ADMIN, target, body)
    except StatusError as error:
        return str(error)
    server.store.remove(server.registry.get(RequestTarget(JOBS, "default", wanted.name)))
    return ""


@pytest.mark.no_cover
def test_what_admission_refuses_the_engine_refuses_too_and_the_other_way_round() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    draw, server = random.Random(seed), EmbeddedApiServer(job_policy_files())
    taken = 0
    for _ in range(300):
        wanted = drawn(draw)
        said, problem = refusal(server, wanted), ""
        try:
            read(wanted)
        except RequestError as error:
            problem = str(error)
        assert bool(said) == bool(problem), (wanted, said, problem)
        taken += not said
    assert 0 < taken < 300, "both answers are tried; some 13 are taken"
