"""The times that the load records, and the figures computed from them."""

from dataclasses import dataclass, field

from hack.bench.extender.cluster_model import ExtenderBenchError

# Seconds before and after a workload was learnt in which its tables and scores are computed.
LEARNING = -10.0, 30.0


@dataclass(frozen=True)
class LoadTiming:
    """Milliseconds of each filter, sorted; pods bound per second; processor time for each; how many fit nowhere.

    `learning_ms` are those of the filters around each of `lessons`, the times at which a target workload was learnt.
    """

    filters_ms: list[float]
    pods_per_s: float
    cpu_ms_per_pod: float
    refused: int
    lessons: int = 0
    learning_ms: list[float] = field(default_factory=list)


@dataclass
class Notes:
    """When each call ended, in seconds of one clock. Each list has one kind of writer, and threads may append."""

    filters: list[tuple[float, float]] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    bindings: list[float] = field(default_factory=list)
    lessons: list[float] = field(default_factory=list)

    def timing(self, start: float, end: float, cpu_seconds: float) -> LoadTiming:
        """The figures of all events between `start` and `end`, in which the service used `cpu_seconds`.

        Raises ExtenderBenchError if no pod was bound.
        """
        measured = [(at, 1000 * took) for at, took in self.filters if start <= at <= end]
        filters = sorted(took for _, took in measured)
        bound, refused = (sum(start <= at <= end for at in times) for times in (self.bindings, self.refusals))
        if not filters or not bound:
            raise ExtenderBenchError(f"no pod was placed, {refused} fit nowhere: write more --seconds")
        lessons = [at for at in self.lessons if start <= at <= end]
        learning = sorted(
            took
            for at, took in measured
            if any(LEARNING[0] <= at - lesson <= LEARNING[1] for lesson in lessons)
        )
        rate, cost = bound / (end - start), 1000 * cpu_seconds / bound
        return LoadTiming(filters, rate, cost, refused, len(lessons), learning)
