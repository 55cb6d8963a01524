"""Variables that Kubeflow sets for ``torchrun``, by its kinds of jobs.

A bare ``torchrun`` takes its options from variables (``torch/distributed/argparse_util.py``), which
the operator sets. Training operator 1.9, ``pkg/controller.v1/pytorch/envvar.go`` and ``elastic.go``
with ``pkg/apis/kubeflow.org/v1/pytorch_defaults.go``; Trainer 2,
``pkg/runtime/framework/plugins/torch/torch.go``.
"""

from collections.abc import Mapping

NODES, PROCESSES = "PET_NNODES", "PET_NPROC_PER_NODE"
_OPEN = "auto"
"""Of processes the operators' default: as many as a machine has GPUs."""
_RUNTIMES = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})


def list_operator_variables(document: Mapping[str, object]) -> dict[str, str]:
    """Return the variables that a job's operator sets, by its kind."""
    spec = _get_mapping(document, "spec")
    kind = document.get("kind")
    if kind == "PyTorchJob":
        return _list_pytorch_variables(spec)
    if kind == "TrainJob":
        trainer = _get_mapping(spec, "trainer")
        # What the job leaves open says its runtime, which is the cluster's.
        return _make_variables(trainer.get("numNodes"), trainer.get("numProcPerNode"))
    if kind in _RUNTIMES:
        policy = _get_mapping(spec, "mlPolicy")
        torch = _get_mapping(policy, "torch")
        return _make_variables(policy.get("numNodes") or 1, torch.get("numProcPerNode"))
    return {}


def find_trainer(document: Mapping[str, object]) -> Mapping[str, object]:
    """Return a TrainJob's trainer, a container but for its name."""
    is_job = document.get("kind") == "TrainJob"
    return _get_mapping(_get_mapping(document, "spec"), "trainer") if is_job else {}


def _list_pytorch_variables(spec: Mapping[str, object]) -> dict[str, str]:
    elastic = _get_mapping(spec, "elasticPolicy")
    processes = spec.get("nprocPerNode") or elastic.get("nProcPerNode")
    minimum, maximum = elastic.get("minReplicas"), elastic.get("maxReplicas")
    if minimum and maximum and minimum != maximum:
        return _make_variables(f"{minimum}:{maximum}", processes)
    counted = _count_replicas(spec, is_elastic="elasticPolicy" in spec)
    return _make_variables(minimum or maximum or counted, processes)


def _count_replicas(spec: Mapping[str, object], *, is_elastic: bool) -> object:
    """Return the nodes of a job; elastic ones are its workers alone."""
    replicas = _get_mapping(spec, "pytorchReplicaSpecs")
    counts = [
        _get_mapping(replicas, kind).get("replicas") or 1
        for kind in replicas
        if not is_elastic or kind.casefold() == "worker"
    ]
    numbers = [count for count in counts if isinstance(count, int)]
    return sum(numbers) if len(numbers) == len(counts) else None


def _make_variables(nodes: object, processes: object) -> dict[str, str]:
    """Return the variables of numbers, None where another says them."""
    return {NODES: str(nodes or _OPEN), PROCESSES: str(processes or _OPEN)}


def _get_mapping(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
