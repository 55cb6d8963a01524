"""Steps of LitGPT's own model code on fake tensors, as its fine-tuning scripts run them."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from service.estimator.values.workload import Attention
from worker.probes.attention.dispatch import use_kernel_dropout
from worker.probes.attention.names import Kernel
from worker.probes.attention.trace_dispatch import make_trace_context
from worker.probes.run.recorder import mark
from worker.probes.trace.ledger import compute_stretches
from worker.probes.trace.recorder import record_storages
from worker.probes.trace.run import make_fake_mode

_WORDS = ("query", "key", "value", "projection", "mlp", "head")
_STEPS, _BLOCK = 2, 64
_CHUNK = 128


class _Product(torch.autograd.Function):
    """bitsandbytes' ``MatMul4Bit`` (0.42 and 0.45), whose weight Lightning packed as fp16."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, layer: "PackedLinear", bias: Any) -> torch.Tensor:  # noqa: ANN401 - autograd's
        ctx.layer = layer
        if layer.keeps_inputs and ctx.needs_input_grad[0]:
            ctx.tensors = (x,)
        return nn.functional.linear(x, layer.unpack().to(x.dtype), bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # noqa: ANN401 - autograd's
        return torch.matmul(grad, ctx.layer.unpack().to(grad.dtype)), None, None


class PackedLinear(nn.Module):
    """A linear layer of bitsandbytes' 4 bits with fp32 scales for each 64 weights."""

    keeps_inputs = False

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:  # noqa: FBT001, FBT002 - as torch's
        """Make codes, scales and the table of values."""
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        elements = in_features * out_features
        codes = torch.zeros(elements // 2, dtype=torch.uint8)
        self.weight = nn.Parameter(codes, requires_grad=False)
        self.register_buffer("scales", torch.zeros(elements // _BLOCK, dtype=torch.float32))
        self.register_buffer("values", torch.zeros(16, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def unpack(self) -> torch.Tensor:
        """Return the weight in fp16."""
        return torch.empty(self.out_features, self.in_features, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        product: torch.Tensor = _Product.apply(x, self, self.bias)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return product


def trace(code: SimpleNamespace, case: Mapping[str, Any], *, keeps_inputs: bool) -> dict[str, int]:
    """Return the bytes of the second step: peaks, and what stays between steps.

    ``keeps_inputs``: bitsandbytes is older than 0.43.3.
    """
    gc.collect()
    gc.disable()
    try:
        with (
            use_kernel_dropout(),
            make_fake_mode(),
            record_storages() as recorder,
            make_trace_context(Attention.SDPA)(Kernel.FLASH),
        ):
            _run(code, case, keeps_inputs=keeps_inputs)
    finally:
        torch.set_default_dtype(torch.float32)
        gc.enable()
    stretches = compute_stretches(recorder.ledger, recorder.ledger.live())
    forward, loss, backward, step, end = stretches[-5:]
    return {
        "forward": max(forward.live_peak, loss.live_peak),
        "backward": backward.live_peak,
        "optimizer_step": step.live_peak,
        "steady": end.start,
    }


@contextmanager
def _use_16_bits(linear: type[nn.Module] | None = None) -> Iterator[None]:
    """Make tensors, and layers of ``linear``, as Fabric's ``init_module`` does."""
    plain = nn.Linear
    torch.set_default_dtype(torch.bfloat16)
    if linear is not None:
        nn.Linear = linear  # type: ignore[misc, assignment]  # put back below
    try:
        yield
    finally:
        nn.Linear = plain  # type: ignore[misc]  # as it was
        torch.set_default_dtype(torch.float32)


def _make_model(code: SimpleNamespace, case: Mapping[str, Any], *, keeps_inputs: bool) -> Any:  # noqa: ANN401 - LitGPT's class
    options: dict[str, Any] = {"n_layer": case["layers"]}
    adapts, is_old = (
        "targets" in case,
        hasattr(code.lora, "lora_filter") and "r" in vars(getattr(code.lora, "Config", object)),
    )
    if adapts:
        start = "" if is_old else "lora_"
        options |= {f"{start}r": case["rank"], f"{start}alpha": 16}
        options[f"{start}dropout"] = case["dropout"]
        words = "to_" if is_old else "lora_"
        options |= {f"{words}{word}": word in case["targets"] for word in _WORDS}
    adapter = case.get("adapter")
    module = getattr(code, adapter) if adapter else code.lora if adapts else code.model
    config = getattr(module, "Config", code.config.Config).from_name(case["name"], **options)
    PackedLinear.keeps_inputs = keeps_inputs
    with _use_16_bits(PackedLinear if case["packed"] else None):
        model = module.GPT(config)
    if adapts:
        code.lora.mark_only_lora_as_trainable(model)
    elif adapter:
        getattr(module, f"mark_only_{adapter}_as_trainable")(model)
    model.max_seq_length = case["length"]
    return model


def _run(code: SimpleNamespace, case: Mapping[str, Any], *, keeps_inputs: bool) -> None:
    model, shape = _make_model(code, case, keeps_inputs=keeps_inputs), case["shape"]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, foreach=True)
    for _ in range(_STEPS):
        mark("forward")
        ids, labels = (torch.zeros(*shape, dtype=torch.int64) for _ in range(2))
        logits = _call(model, ids, in_chunks="targets" in case or "adapter" in case)
        mark("loss")
        if isinstance(logits, list):
            logits[-1] = logits[-1][..., :-1, :]
            loss = code.utils.chunked_cross_entropy(logits, labels[..., 1:])
        else:
            loss = code.utils.chunked_cross_entropy(logits[..., :-1, :], labels[..., 1:])
        mark("backward")
        loss.backward()
        loss = None
        for part in model.modules():
            if hasattr(part, "adapter_kv_cache"):
                # Another step cannot go back through what the last one kept.
                part.adapter_kv_cache = None
        mark("optimizer_step")
        optimizer.step()
        optimizer.zero_grad()
    mark("end")


def _call(model: Any, ids: torch.Tensor, *, in_chunks: bool) -> Any:  # noqa: ANN401 - a tensor or a list
    """Return what Fabric's wrapper does: the logits in fp32."""
    with _use_16_bits():
        returned = model(ids, lm_head_chunk_size=_CHUNK) if in_chunks else model(ids)
    if isinstance(returned, list):
        return [part.float() for part in returned]
    return returned.float()
