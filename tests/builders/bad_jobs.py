"""Jobs that are written wrongly, and what is said of each: by admission, and by the engine that reads them again.

A row has annotations and labels below vgpu.io/, other fields of the Job, and words of the message.
"""

from collections.abc import Mapping
from typing import Any

from tests.builders.cards import FAMILY, MEM
from tests.builders.written_jobs import ELASTIC, template

QUEUED = {"queue": "default"}
SIZED = {
    "samples": "1281167", "epochs": "90", "duration": "8h", "duration-at-most": "16h", "model": "resnet50",
}  # fmt: skip
SPLIT = {"split": "ordered"}

# Annotations of a Job in a queue, other fields, and words.
BAD: list[tuple[Mapping[str, str], Mapping[str, Any], str]] = [
    ({"min-replicas": "5", "max-replicas": "3"}, {}, "min-replicas is 5 and vgpu.io/max-replicas 3: write"),
    ({"min-replicas": "0"}, {}, "annotation vgpu.io/min-replicas is '0': write a whole number from 1 to 1024"),
    ({"max-replicas": "eight"}, {}, "annotation vgpu.io/max-replicas is 'eight': write a whole number from 1"),
    ({"max-replicas": ""}, {}, "annotation vgpu.io/max-replicas is '': write"),
    ({"max-replicas": "08"}, {}, "is '08': write"),
    ({"max-replicas": "٣"}, {}, "is '٣': write"),
    ({"max-replicas": "1025"}, {}, "is '1025': write a whole number from 1 to 1024"),
    ({"max-replicas": "9" * 60}, {}, "write a whole number from 1 to 1024"),
    ({"widths": "1,2,4,"}, {}, "widths is '1,2,4,': write at most 16 whole numbers from 1 to 1024 in ascending order"),
    ({"widths": ""}, {}, "annotation vgpu.io/widths is '': write at most 16"),
    ({"widths": "1, 2, 4"}, {}, "annotation vgpu.io/widths is '1, 2, 4': write"),
    ({"widths": "4,2,8"}, {}, "annotation vgpu.io/widths is '4,2,8': write"),
    ({"widths": "2,4,4"}, {}, "annotation vgpu.io/widths is '2,4,4': write"),
    ({"widths": "0,4"}, {}, "annotation vgpu.io/widths is '0,4': write"),
    ({"widths": "4,1025"}, {}, "annotation vgpu.io/widths is '4,1025': write"),
    ({"widths": ",".join(map(str, range(4, 21)))}, {}, "is '4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20': write"),
    ({"widths": ",".join("4" * 5_000)}, {}, "write at most 16 whole numbers"),
    ({"widths": "1,2,8"}, {"suspend": True},
     "completions and parallelism are 4, and vgpu.io/widths allows 1, 2, 8: write one of these into both"),
    ({"widths": "1,2,4,8", "max-replicas": "3"}, {"parallelism": 3, "completions": 3, "suspend": True},
     "are 3, and vgpu.io/widths allows 1, 2: write one of these into both"),
    ({"widths": "1,2,8", "min-replicas": "3", "max-replicas": "7"}, {},
     "vgpu.io/widths has no width from vgpu.io/min-replicas to vgpu.io/max-replicas: write one that has"),
    ({"widths": "4,8", "min-replicas": "5"}, {}, "completions and parallelism are 4: write a width that is not less"),
    ({"widths": "1,2,4"}, {"indexed": False}, "completionMode is NonIndexed: a width that changes needs"),
    ({"widths": "2,4,8"}, {"template": template(labels={"group": "g", "group-size": "4"})},
     "label vgpu.io/group-size of the pods is 4, but the Job's smallest width is 2: write 2"),
    ({}, {"parallelism": 1025, "completions": 1025}, "parallelism is 1025: write at most 1024"),
    ({}, {"parallelism": 0}, "parallelism is 0: write at least 1"),
    ({}, {"completions": 0}, "completions is 0: write at least 1"),
    (ELASTIC, {"indexed": False}, "completionMode is NonIndexed: a width that changes needs"),
    (ELASTIC, {"completions": 8}, "completions is 8 and parallelism 4: write one number into both"),
    (ELASTIC, {"parallelism": 1, "completions": 1}, "completions and parallelism are 1: write a width"),
    (ELASTIC, {"parallelism": 9, "completions": 9}, "completions and parallelism are 9: write a width"),
    (ELASTIC, {"template": template(labels={"group": "g", "group-size": "4"})},
     "label vgpu.io/group-size of the pods is 4, but vgpu.io/min-replicas is 2: write 2 in both"),
    ({}, {"template": template(labels={"group": "g", "group-size": "5"})}, "is 5, but the Job runs 4: write 4"),
    (ELASTIC, {"restart_policy": "OnFailure"}, "restartPolicy is OnFailure: a width that changes needs"),
    (ELASTIC, {"success_policy": True}, "successPolicy ends the Job by some of its pods"),
    (ELASTIC, {"backoff_limit_per_index": 1}, "backoffLimitPerIndex counts the failures of an index"),
    (ELASTIC, {"replacement": "TerminatingOrFailed"}, "needs podReplacementPolicy: Failed, because"),
    ({}, {"managed_by": "kueue.x-k8s.io/multikueue"}, "managedBy is kueue.x-k8s.io/multikueue, a controller"),
    (SPLIT, {"parallelism": 0}, "parallelism is 0: write at least 1"),
    (SPLIT, {"completions": 0}, "completions is 0: write the number of sub-tasks"),
    (SPLIT, {"completions": 100_001}, "completions is 100001: write the number of sub-tasks"),
    (SPLIT, {"indexed": False}, "completionMode is NonIndexed: a split needs completionMode: Indexed"),
    (SPLIT, {"restart_policy": "OnFailure"}, "restartPolicy is OnFailure: a split needs restartPolicy: Never"),
    ({**SPLIT, **ELASTIC}, {}, "annotation vgpu.io/min-replicas: leave it out, because a split runs"),
    ({**SPLIT, "widths": "1,2"}, {}, "annotation vgpu.io/widths: leave it out, because a split runs"),
    (SPLIT | SIZED, {}, "annotations vgpu.io/split and vgpu.io/samples: write one of them"),
    (SPLIT, {"template": template(labels={"group": "g", "group-size": "2"})}, "leave it out, because each"),
    ({"split": "sorted"}, {}, "annotation vgpu.io/split is 'sorted': write ordered or any"),
    ({"split": ""}, {}, "annotation vgpu.io/split is '': write ordered or any"),
    (SPLIT | {"split-ratio": "0.5"}, {}, "annotation vgpu.io/split-ratio is '0.5': write a number of at least 1"),
    (SPLIT | {"split-ratio": "four"}, {}, "split-ratio is 'four': write a number of at least 1, such as 4 or 2.5"),
    ({"split-ratio": "4"}, {}, "split-ratio is about the sub-tasks of one Job: write vgpu.io/split too"),
    ({"group-jobs": "3"}, {}, "annotation vgpu.io/group-jobs needs the label vgpu.io/group: write the group's name"),
    ({"group-jobs": "three"}, {}, "group-jobs is 'three': write a whole number from 1 to 1024"),
    ({"barrier": "true"}, {}, "vgpu.io/barrier needs sub-tasks that are Jobs of their own: write"),
    (SPLIT | {"barrier": "true"}, {}, "vgpu.io/barrier needs sub-tasks that are Jobs of their own: write"),
    ({"barrier": "yes"}, {}, "annotation vgpu.io/barrier is 'yes': write true or false"),
    ({"expected-duration": "8 hours"}, {}, "is '8 hours': write a time of at most 366 days, such as 8h"),
    ({"expected-duration": "8"}, {}, "is '8': write a time"),
    ({"expected-duration": "0h"}, {}, "is '0h': write a time"),
    ({"expected-duration": "30m1h"}, {}, "is '30m1h': write a time"),
    ({"resumable": "yes"}, {}, "annotation vgpu.io/resumable is 'yes': write true or false"),
    ({"resumable": ""}, {}, "annotation vgpu.io/resumable is '': write true or false"),
    (SPLIT | {"resumable": "true"}, {}, "annotation vgpu.io/resumable: leave it out, because the sub-tasks of a split"),
    ({"hold": "yes"}, {}, "annotation vgpu.io/hold is 'yes': write true or false"),
    ({"hold": ""}, {}, "annotation vgpu.io/hold is '': write true or false"),
    ({"min-runtime": "2 hours"}, {}, "annotation vgpu.io/min-runtime is '2 hours': write a time of at most 24 hours"),
    ({"min-runtime": "0h"}, {}, "is '0h': write a time of at most 24 hours, such as 2h or 90m"),
    ({"checkpoint-seconds": "2m"}, {}, "checkpoint-seconds is '2m': write a whole number from 1 to 3600"),
    ({"checkpoint-seconds": "3601"}, {}, "is '3601': write a whole number from 1 to 3600"),
    ({"resize-drop": "last"}, {}, "resize-drop is 'last': write a whole number from 1 to 1000000000000"),
    ({"app-type": "tpu"}, {}, "annotation vgpu.io/app-type is 'tpu': write gpu, cpu or memory"),
    (SIZED | {"app-type": "cpu"}, {}, "app-type is cpu: only jobs of type gpu are sized"),
    (SIZED | {"duration": "8 hours"}, {}, "annotation vgpu.io/duration is '8 hours': write a time"),
    (SIZED | {"model": "ResNet 50"}, {}, "annotation vgpu.io/model is 'ResNet 50': write a name such as resnet50"),
    (SIZED | {"samples": "1.2M"}, {}, "annotation vgpu.io/samples is '1.2M': write a whole number from 1 to"),
    ({"samples": "5"}, {}, "lacks vgpu.io/duration, vgpu.io/model: write vgpu.io/duration, vgpu.io/model too"),
    ({"duration": "8h"}, {}, "a Job that is to be sized lacks vgpu.io/samples, vgpu.io/model"),
    (SIZED, {"template": template({MEM: "4"})}, "must ask for whole cards, for which rates are known"),
    (SIZED, {"template": template({})}, "must ask for whole cards"),
    (SIZED | {"card-model": "Z100"}, {}, "annotation vgpu.io/card-model of the Job is not that of its pods"),
    (SIZED, {"indexed": False}, "completionMode is NonIndexed: a width that changes needs"),
    ({"vgpu.io/colour": "red"}, {}, "vgpu.io/colour is no key of vgpu: remove it, or write one of the annotations"),
    ({"queue": "a"}, {}, "annotation vgpu.io/queue: write a label instead"),
    ({"policy": "pack"}, {}, "annotation vgpu.io/policy: write it on the pods, in spec.template.metadata"),
]  # fmt: skip

# What admission cannot know, or Kubernetes itself refuses before.
UNREADABLE: list[tuple[Mapping[str, str], Mapping[str, Any], str]] = [
    (ELASTIC, {"completions": None}, "completions is not written and parallelism 4: write one number into both"),
    (SPLIT, {"completions": None}, "completions is 0: write the number of sub-tasks, 1 to 100000"),
    ({"expected-duration": "367d"}, {}, "is '367d': write a time of at most 366 days"),
    ({"min-runtime": "25h"}, {}, "is '25h': write a time of at most 24 hours, such as 2h or 90m"),
    ({"min-runtime": "1d1s"}, {}, "is '1d1s': write a time of at most 24 hours"),
    (SIZED | {"duration-at-most": "7h"}, {}, "vgpu.io/duration-at-most is less than vgpu.io/duration"),
    ({}, {"template": template({FAMILY: "1", MEM: "1"})}, "container main asks for whole cards and a slice"),
]  # fmt: skip

# Labels of an elastic Job, and words.
BAD_LABELS: list[tuple[Mapping[str, str], str]] = [
    ({"queue": ""}, "label vgpu.io/queue is empty: write the name of a queue, such as default"),
    ({**QUEUED, "group": "g", "role": "worker"}, "label vgpu.io/role is 'worker': write master, ps or trainer"),
    ({**QUEUED, "role": "ps"}, "label vgpu.io/role needs vgpu.io/group: write the group's name"),
    ({**QUEUED, "group": "g", "role": "ps"}, "label vgpu.io/role is ps, whose width stays: write"),
    ({**QUEUED, "group": "g", "role": "trainer"},
     "label vgpu.io/role is trainer, and nothing says how many Jobs wait for each other: write the annotation"
     " vgpu.io/group-jobs with the number of the group's Jobs, such as '3', on each of them"),
    ({**QUEUED, "group": ""}, "label vgpu.io/group is empty"),
    ({**QUEUED, "split-of": "n"}, "labels vgpu.io/split-of and vgpu.io/part: write both"),
    ({**QUEUED, "part": "3"}, "labels vgpu.io/split-of and vgpu.io/part: write both"),
    ({**QUEUED, "split-of": "", "part": "3"}, "label vgpu.io/split-of is empty"),
    ({**QUEUED, "split-of": "n", "part": "three"}, "vgpu.io/part is 'three': write a whole number from 0 to 99999"),
    ({**QUEUED, "min-replicas": "2"}, "label vgpu.io/min-replicas: write an annotation instead"),
    ({**QUEUED, "group-size": "2"}, "label vgpu.io/group-size: write it on the pods, in spec.template.metadata"),
    ({**QUEUED, "colour": "red"}, "vgpu.io/colour is no key of vgpu"),
]  # fmt: skip
