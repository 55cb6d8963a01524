"""Tensors that inductor's own partitioner keeps for backward, counted on fake tensors."""

from collections.abc import Callable

import torch
from torch._dynamo import reset
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from transformers import AutoConfig, AutoModelForCausalLM

from tests.accuracy.compiled.kept import LENGTH, SIZES

_BATCH = 2


def count_kept(family: str, *, autocast: bool) -> float:
    """Return the bytes that one more layer keeps of one token.

    Weights and views of them are left out, and a second name of attention's output is counted
    once.
    """
    fewer, more = (_trace(family, num_layers, autocast=autocast) for num_layers in (2, 3))
    return (more - fewer) / (_BATCH * LENGTH)


def _trace(family: str, num_layers: int, *, autocast: bool) -> int:
    kept: list[torch.Tensor] = []

    def partition(
        joint: GraphModule, inputs: object, *, num_fwd_outputs: int, **options: list[int] | None
    ) -> tuple[GraphModule, GraphModule]:
        graphs = min_cut_rematerialization_partition(
            joint, inputs, compiler="inductor", num_fwd_outputs=num_fwd_outputs, **options
        )
        (output,) = (node for node in graphs[0].graph.nodes if node.op == "output")
        for node in output.args[0][num_fwd_outputs:]:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and "alias" not in str(node.target):
                kept.append(value)
        return graphs

    def run(graph: GraphModule, example: list[torch.Tensor]) -> Callable[..., object]:
        compiled: Callable[..., object] = aot_module_simplified(
            graph,
            example,
            fw_compiler=lambda part, _: make_boxed_func(part.forward),
            bw_compiler=lambda part, _: make_boxed_func(part.forward),
            partition_fn=partition,
            decompositions=select_decomp_table(),
        )
        return compiled

    reset()
    config = AutoConfig.for_model(family, **SIZES, num_hidden_layers=num_layers, use_cache=False)
    dtype = torch.float32 if autocast else torch.bfloat16
    with FakeTensorMode(allow_non_fake_inputs=True), torch.autocast("cpu", enabled=autocast):
        make: Callable[..., torch.nn.Module] = AutoModelForCausalLM.from_config
        model = make(config, dtype=dtype)
        ids = torch.zeros((_BATCH, LENGTH), dtype=torch.int64)
        step: Callable[..., object] = torch.compile(model, backend=run)
        step(input_ids=ids, labels=ids)
    return sum(value.numel() * value.element_size() for value in kept if _has_tokens(value))


def _has_tokens(value: torch.Tensor) -> bool:
    sizes = tuple(value.shape)
    return sizes[:1] == (_BATCH * LENGTH,) or (sizes[:1] == (_BATCH,) and LENGTH in sizes)
