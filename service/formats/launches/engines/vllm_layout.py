"""GPUs of vLLM's launches: degrees, replicas, nodes."""

from service.formats.launches.engines.engine_settings import put_int
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, Settings


def read_layout(settings: Settings, draft: Draft) -> None:
    """Set the degrees, and the GPUs of a node."""
    degrees = [
        put_int(draft, settings, f"layout.{kind}_parallel", f"{kind}_parallel_size") or 1
        for kind in ("tensor", "pipeline", "data")
    ]
    tensor, pipeline, data = degrees
    experts = settings.take("enable_expert_parallel")
    if experts is not None and experts.as_bool():
        draft.put("layout.expert_parallel", tensor * data, experts)
    elif experts is not None:
        draft.drop(experts)
    nodes, local = settings.take("nnodes"), settings.take("data_parallel_size_local")
    gpus = tensor * pipeline * data
    if nodes is not None:
        count = nodes.as_int(minimum=1)
        if gpus % count:
            raise nodes.refuse(f"a number of nodes that divides {gpus} GPUs")
        draft.put("layout.gpus_per_node", gpus // count, nodes)
        if local is not None:
            _check_local(local, nodes, gpus // count, tensor * pipeline)
            draft.note(local, f"replicas on a node of those that {nodes.key} says")
    elif local is not None and local.as_int(minimum=1) < data:
        on_one = tensor * pipeline * local.as_int(minimum=1)
        draft.put("layout.gpus_per_node", on_one, local)
    elif local is not None:
        draft.drop(local)


def _check_local(local: Setting, nodes: Setting, per_node: int, of_replica: int) -> None:
    """Refuse replicas on a node that its GPUs do not make.

    One that is larger than a node is on several.
    """
    expected = max(1, per_node // of_replica)
    if local.as_int(minimum=1) != expected:
        raise local.refuse(
            f"{expected}: {nodes.key} {nodes.value} leaves {per_node} GPUs to a node, and a "
            f"replica has {of_replica} (tensor x pipeline)"
        )
