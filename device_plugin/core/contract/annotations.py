"""The annotations and labels of the contract, and the bounds of the texts in them."""

from dataclasses import dataclass

PREFIX = "vgpu.io/"
CARDS = "vgpu.io/cards"
GRANT = "vgpu.io/grant"
CARD_MODEL = "vgpu.io/card-model"
CARD_UUID = "vgpu.io/card-uuid"
POLICY = "vgpu.io/policy"
CORDONED = "vgpu.io/cordoned"
CORDON_NOTES = "vgpu.io/cordon-notes"
TOUCHED = "vgpu.io/touched"
APP_TYPE = "vgpu.io/app-type"
ROLE_ORDER = "vgpu.io/role-order"
SLICES = "vgpu.io/slices"
# An annotation of pods, and of namespaces.
IDLE_LIMIT = "vgpu.io/idle-limit"

# Annotations of Jobs.
MIN_REPLICAS = "vgpu.io/min-replicas"
MAX_REPLICAS = "vgpu.io/max-replicas"
WIDTHS = "vgpu.io/widths"
SPLIT = "vgpu.io/split"
SPLIT_RATIO = "vgpu.io/split-ratio"
BARRIER = "vgpu.io/barrier"
SAMPLES = "vgpu.io/samples"
EPOCHS = "vgpu.io/epochs"
DURATION = "vgpu.io/duration"
DURATION_AT_MOST = "vgpu.io/duration-at-most"
MODEL = "vgpu.io/model"
EXPECTED_DURATION = "vgpu.io/expected-duration"
CHECKPOINT_SECONDS = "vgpu.io/checkpoint-seconds"
RESUMABLE = "vgpu.io/resumable"
MIN_RUNTIME = "vgpu.io/min-runtime"
HOLD = "vgpu.io/hold"
RESIZE = "vgpu.io/resize"
GROUP_JOBS = "vgpu.io/group-jobs"
RESIZE_DROP = "vgpu.io/resize-drop"
# A label of nodes, and an annotation of Jobs.
POOL = "vgpu.io/pool"
# The label POOL with a prefix that kubelets may not write: NodeRestriction, an admission plugin, refuses it.
RESTRICTED_POOL = "node-restriction.kubernetes.io/vgpu-pool"
# An annotation of namespaces.
QUEUES = "vgpu.io/queues"
# An annotation of Leases.
NOTE = "vgpu.io/note"
# An annotation of pods of Jobs.
CHECKPOINT = "vgpu.io/checkpoint"

# Labels.
GROUP = "vgpu.io/group"
GROUP_SIZE = "vgpu.io/group-size"
ROLE = "vgpu.io/role"
RANK = "vgpu.io/rank"
# Labels of Jobs, and of namespaces.
QUEUE = "vgpu.io/queue"
SPLIT_OF = "vgpu.io/split-of"
PART = "vgpu.io/part"
QUEUE_REQUIRED = "vgpu.io/queue-required"
QUOTA = "vgpu.io/quota"
ADMISSION = "vgpu.io/admission"
CLAIMS = "vgpu.io/claims"
# Labels of Kubeflow's training operator (github.com/kubeflow/common, pkg/apis/common/v1/constants.go).
REPLICA_TYPE = "training.kubeflow.org/replica-type"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
# A label and an annotation that Kueue reads on Jobs.
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_ELASTIC = "kueue.x-k8s.io/elastic-job"
# Annotations by which HAMi and Hygon's plugin in HAMi's mode offer a node's cards.
REGISTERS = (
    "hami.io/node-hcu-register", "hami.io/node-dcu-register", "hygon.com/node-hcu-register",
    "hygon.com/node-dcu-register",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """The description of a label or an annotation, for the reference page.

    `object` is the kind of the API object that carries it, `kind` is `label` or `annotation`, and `writer` is the
    program or person that writes it.
    """

    name: str
    object: str
    kind: str
    writer: str
    meaning: str


_AUTHOR, _AGENT, _CLUSTER = "the pod's author", "the node agent", "the cluster service"
_USER, _OPERATOR, _JOBS = "the Job's author", "an operator", "the job engine"
_PROGRAMS = (_AGENT, _CLUSTER, _JOBS)
KEYS = (
    Key(CARD_MODEL, "Pod", "annotation", _AUTHOR,
        "Models of cards, `Z100,!K100`: only these; `!` excludes a model. At most 64 words, 4,096 characters."),
    Key(CARD_UUID, "Pod", "annotation", _AUTHOR,
        "Cards by uuid: only these; `!` excludes a card. At most 64 words, 4,096 characters."),
    Key(POLICY, "Pod", "annotation", _AUTHOR, "The placement policy; `fragmentation` if there is none."),
    Key(APP_TYPE, "Pod", "annotation", _AUTHOR,
        "For the policy `node-score`: `gpu` (default), `cpu` or `memory`, the kind of resource that matters most."),
    Key(ROLE_ORDER, "Pod", "annotation", _AUTHOR,
        "For the policy `node-score`: the roles of the group in the order in which they choose, `master,ps,worker`; one"
        " order on all pods of the group."),
    Key(SLICES, "Pod", "annotation", _AUTHOR,
        "The number of cards, 1 to 16, of each of which the one container that asks gets a slice; its limits are the"
        " sum of all slices, and divide evenly."),
    Key(IDLE_LIMIT, "Pod", "annotation", _AUTHOR,
        "The idle time after which the pod is evicted, `2h` or `90m`: at least 30 minutes (parameter"
        " `leastIdleMinutes`), at most 366 days. It counts for all slices of the pod together, where the driver counts"
        " busy compute units."),
    Key(GROUP, "Pod", "label", _AUTHOR, "The name of the group, in its namespace, that the pod belongs to."),
    Key(GROUP_SIZE, "Pod", "label", _AUTHOR,
        "How many pods of the group must run together, 1 to 1024: they get their cards at once or not at all."),
    Key(ROLE, "Pod", "label", _AUTHOR, "The pod's role in its group, `worker-2`, for the policy `node-score`."),
    Key(REPLICA_TYPE, "Pod", "label", "Kubeflow's training operator", "The role where the pod has no vgpu.io/role."),
    Key(REPLICA_INDEX, "Pod", "label", "Kubeflow's training operator", "The number of a role from the label before."),
    Key(QUEUE, "Job", "label", _USER,
        "The name of the queue in which the Job waits for cards, such as `default`. Jobs without it are left alone."
        " JobSets, RayJobs, RayClusters, TrainJobs, PyTorchJobs and MPIJobs may have it too."),
    Key(MIN_REPLICAS, "Job", "annotation", _USER,
        "The fewest pods with which the Job can run, 1 to 1024; the number that it has if there is none."),
    Key(MAX_REPLICAS, "Job", "annotation", _USER,
        "The most pods with which the Job can run, 1 to 1024; the number that it has if there is none."),
    Key(WIDTHS, "Job", "annotation", _USER,
        "The numbers of pods with which the Job can run, `1,2,4,8`: at most 16, ascending, 1 to 1024. It has no other"
        " one. The first and the last are its bounds; vgpu.io/min-replicas and vgpu.io/max-replicas leave some of them"
        " out. Not on a split; of no effect where Kueue or JobSet decides how many pods there are."),
    Key(GROUP, "Job", "label", _USER,
        "The name of the group, in its namespace, whose Jobs start together."),
    Key(ROLE, "Job", "label", _USER,
        "The Job's role in its group, `master`, `ps` or `trainer`: they start in this order. With it the Job, or its"
        " pods, say how large the group is: vgpu.io/group-jobs, or vgpu.io/group-size."),
    Key(GROUP_JOBS, "Job", "annotation", _USER,
        "How many Jobs the group has, 1 to 1024: they wait for each other. One number on all of them."),
    Key(SPLIT, "Job", "annotation", _USER,
        "`ordered` or `any`: each pod is a sub-task, and sub-tasks fill the free room. On a Job with vgpu.io/split-of,"
        " the order of the Jobs of that split."),
    Key(SPLIT_RATIO, "Job", "annotation", _USER,
        "The split begins once there is room for more sub-tasks at a time than their number divided by this, `4`, or"
        " when it has waited for too long; by default it begins with one."),
    Key(BARRIER, "Job", "annotation", _USER,
        "`true` on a Job with vgpu.io/split-of: further sub-tasks start only when all that run have ended."),
    Key(SPLIT_OF, "Job", "label", _USER,
        "The name of the split of which the Job is a sub-task; one name on all of its Jobs."),
    Key(PART, "Job", "label", _USER, "The number of the Job among the sub-tasks of its split, from 0."),
    Key(SAMPLES, "Job", "annotation", _USER,
        "How many samples the data set has. With it the Job is sized: its number of pods is found from this key and the"
        " next five."),
    Key(EPOCHS, "Job", "annotation", _USER, "How often the data set is gone through; once if there is none."),
    Key(DURATION, "Job", "annotation", _USER, "How long the Job may take, `8h`, `90m` or `1h30m`."),
    Key(DURATION_AT_MOST, "Job", "annotation", _USER,
        "How long it may take where fewer cards are free; no longer than vgpu.io/duration if there is none."),
    Key(MODEL, "Job", "annotation", _USER, "The machine-learning model, `resnet50`, by which its speed is known."),
    Key(APP_TYPE, "Job", "annotation", _USER, "`gpu` (default), `cpu` or `memory`; only jobs of type `gpu` are sized."),
    Key(CARD_MODEL, "Job", "annotation", _USER, "The pods' own annotation of this name, by which cards are chosen."),
    Key(EXPECTED_DURATION, "Job", "annotation", _USER,
        "How long the Job will run with the pods that it has, `6h`."),
    Key(CHECKPOINT_SECONDS, "Job", "annotation", _USER,
        "How long a checkpoint may take before pods are ended, 1 to 3600 s, where their grace period is not enough."),
    Key(RESUMABLE, "Job", "annotation", _USER,
        "`true` if the program goes on from its checkpoints after a stop: the Job may be stopped for one of its"
        " priority. `false`: it is only stopped for a higher one. The engine's settings `resumable` and"
        " `resumableQueues` count if there is none. Not on a split, whose sub-tasks would begin again; of no effect"
        " where Kueue or JobSet decides when the Job runs."),
    Key(MIN_RUNTIME, "Job", "annotation", _USER,
        "For how long after each start the Job gives nothing to others of its priority, `2h`, at most 24 h; if there is"
        " none, the engine's setting `minRuntimeSeconds`."),
    Key(HOLD, "Job", "annotation", _USER,
        "`true` while the Job is not to run (`vgpu stop`, `vgpu resume`): the engine stops it, and starts it only after"
        " the annotation is removed, or is `false`. Of no effect where Kueue decides when the Job runs."),
    Key(RESIZE, "Job", "annotation", _JOBS,
        "The change of the Job's width that is under way, and the Job's past, as JSON. If it is"
        " removed, the engine writes it again; it keeps a copy in the Job's status, as the condition of this type."),
    Key(RESIZE_DROP, "Job", "annotation", _USER,
        "The `gen` of the record in vgpu.io/resize: ends what is under way by that record, and what it promises."),
    Key(POOL, "Job", "annotation", _JOBS,
        "The pool that was chosen for a Job which fits several. Anybody may remove it; then a pool is chosen again."),
    Key(NOTE, "Lease", "annotation", _JOBS,
        "On the Lease `vgpu-jobs`, where there are several pools: the numbers of the Leases of those that have jobs."),
    Key(CHECKPOINT, "Pod", "annotation", _JOBS,
        "A request to the program of a Job's pod of index 0 to save now, and until when, as JSON."),
    Key(QUEUE_REQUIRED, "Namespace", "label", _OPERATOR,
        "`true` where Jobs that ask for cards must have vgpu.io/queue, and pods must be made by a controller, such as"
        " that of Jobs (parameter `controllers`)."),
    Key(QUEUES, "Namespace", "annotation", _OPERATOR,
        "The queues that the namespace's Jobs may name, `default,research`; where there is none, those of the parameter"
        " `queues`."),
    Key(IDLE_LIMIT, "Namespace", "annotation", _OPERATOR,
        "The idle limit of the namespace's pods that ask for a slice and have none of their own when they are created."
        " It needs Kubernetes 1.36."),
    Key(QUOTA, "Namespace", "label", _OPERATOR,
        "`strict` where pods must write all that a quota may count: both memory and core groups, or percent, and the"
        " number of slices."),
    Key(ADMISSION, "Namespace", "label", _OPERATOR,
        "`ignore` where no pod gets a card: a pod that asks is refused, and all others pass untouched, as everywhere."),
    Key(CLAIMS, "Namespace", "label", _OPERATOR,
        "`allowed` where pods may ask for cards by ResourceClaims, whose memory and core groups no quota counts"
        " (component `dra`)."),
    Key(CARDS, "Node", "annotation", _AGENT, "The inventory: the node's cards, and slices to report, as JSON."),
    Key(GRANT, "Pod", "annotation", _CLUSTER,
        "The grant: card, memory and core groups of each container, as JSON. Written with the Binding, never changed by"
        " anybody else."),
    Key(RANK, "Pod", "label", _CLUSTER,
        "The pod's place in its group with the policy `node-score`, 0 for the first. Written with the Binding, on"
        " Kubernetes 1.35 and newer."),
    Key(TOUCHED, "Pod", "annotation", _CLUSTER,
        "When the cluster service last made kube-scheduler try the pod again. Nothing reads it."),
    Key(CORDONED, "Node", "annotation", "an operator, by `vgpu cordon`", "Cards that get no new slices, by uuid."),
    Key(CORDON_NOTES, "Node", "annotation", "an operator, by `vgpu cordon`",
        "Why, when and by whom cards were cordoned, as JSON. `vgpu cards` shows it; nothing else reads it."),
    Key(POOL, "Node", "label", _OPERATOR,
        "The pool of the node's cards, for the job engine. It counts where all nodes with cards of a family have it."),
    Key(RESTRICTED_POOL, "Node", "label", _OPERATOR,
        "The same, as a label that no kubelet may write on its own node. As soon as one node with cards has it, it"
        " counts in place of vgpu.io/pool."),
    Key("vgpu.io/node", "Node", "label", _OPERATOR, "`true` on the nodes where the node agent is to run."),
    Key("vgpu.io/maker", "Node", "label", _OPERATOR,
        "`hygon` on nodes with Hygon's cards: their agents see the maker's folders (DaemonSet `vgpu-node-hygon`)."),
)  # fmt: skip
"""Every key: the reference page, and the lists in the code and in admission policies, are made of these."""


def people_write(on: str, kind: str) -> tuple[str, ...]:
    """The names of this project's labels or annotations (`kind`) that people write on a kind of object (`on`)."""
    return tuple(
        key.name
        for key in KEYS
        if (key.object, key.kind) == (on, kind)
        and key.writer not in _PROGRAMS
        and key.name.startswith(PREFIX)
    )


def programs_write(on: str) -> tuple[str, ...]:
    """The names of labels and annotations that only this project's programs write on objects of the kind `on`."""
    return tuple(key.name for key in KEYS if key.object == on and key.writer in _PROGRAMS)


VERSION = 1
# An inventory of 16 cards is 4 KiB and a grant of 100 containers 12 KiB; Kubernetes allows 256 KiB.
MAX_BYTES = 64 * 1024
# Characters of a name or a uuid.
MAX_TEXT = 253
# The largest number in a text: enough for any card or cluster, and sums stay exact in a signed 64-bit integer.
MAX_INT = 2**40
# Most cards of a node, and so most slices of a container.
MAX_CARDS = 64
MAX_COMPUTE_UNITS = 1024
