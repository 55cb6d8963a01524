"""Places in the code where memory runs out, in our words.

Frames are read from the outermost to the innermost: what is recomputed during a backward pass
belongs to the backward pass, and a closure that an optimizer calls is a pass of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from service.formats.failures.failure import Failure, FailureSpeaker, Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place of a failure in our words.

    ``instant`` is one of ours, or ``None`` where a failure comes before or beside all of them;
    ``terms`` are components that grow there. ``what`` is the place in words.
    """

    instant: str | None
    terms: tuple[str, ...]
    what: str
    frame: Frame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Place of frames by function, file and code."""

    place: Place
    functions: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    keeps: bool = field(default=False)
    """Whether frames further inside leave the place as it is."""

    def matches(self, frame: Frame) -> bool:
        """Return whether a frame is of this place."""
        return (
            (not self.functions or frame.function in self.functions)
            and (not self.files or any(part in frame.file for part in self.files))
            and (not self.code or any(part in frame.code for part in self.code))
        )


LOAD = Place(instant="load", terms=("weights",), what="loading the weights")
SETUP = Place(
    instant="load",
    terms=("weights", "master_weights", "gradients"),
    what="the set-up of the trainer, before the first step",
)
FORWARD = Place(instant="forward", terms=("activations",), what="the forward pass")
ATTENTION = Place(instant="forward", terms=("activations",), what="attention in the forward pass")
LOSS = Place(instant="loss", terms=("logits",), what="logits and loss")
BACKWARD = Place(instant="backward", terms=("gradients", "activations"), what="the backward pass")
STATES = Place(
    instant="optimizer_step",
    terms=("optimizer_states", "master_weights"),
    what="the optimizer's first step, which makes its states",
)
STEP = Place(
    instant="optimizer_step", terms=("temporaries", "optimizer_states"), what="the optimizer's step"
)
GENERATE = Place(instant="prefill", terms=("activations", "logits", "kv_cache"), what="generation")
PREFILL = Place(
    instant="prefill", terms=("activations", "logits"), what="the pass over the prompts"
)
DECODE = Place(instant="decode", terms=("kv_cache",), what="decoding")
PROFILE = Place(
    instant="prefill", terms=("activations",), what="the engine's profiling pass at its start"
)
SAMPLER = Place(
    instant="decode", terms=("sampler_state", "logits"), what="the engine's warm-up of its sampler"
)
GRAPHS = Place(instant="decode", terms=("cuda_graphs",), what="the capture of CUDA graphs")
POOL = Place(instant=None, terms=("kv_cache",), what="making the KV cache pool")
COMMUNICATION = Place(instant=None, terms=("communication_buffers",), what="making a communicator")
LIBRARY = Place(
    instant=None, terms=("library_workspaces", "device_context"), what="a library of CUDA"
)


def _rule(
    place: Place, functions: str, *files: str, code: tuple[str, ...] = (), keeps: bool = False
) -> _Rule:
    return _Rule(
        place=place, functions=frozenset(functions.split()), files=files, code=code, keeps=keeps
    )


_RULES = (
    _rule(SAMPLER, "_dummy_sampler_run _dummy_pooler_run", keeps=True),
    _rule(
        GRAPHS,
        "capture_model capture init_cuda_graphs capture_one_batch_size "
        "init_device_graphs capture_graphs",
        "vllm/",
        "sglang/",
        keeps=True,
    ),
    _rule(GRAPHS, "capture_begin capture_end", "torch/cuda/graphs.py", keeps=True),
    _rule(
        PROFILE,
        "profile_run determine_available_memory determine_num_available_blocks "
        "profile_num_available_blocks",
        "vllm/",
        "sglang/",
        keeps=True,
    ),
    _rule(
        POOL,
        "initialize_kv_cache _allocate_kv_cache _allocate_kv_cache_tensors "
        "allocate_kv_cache_tensors initialize_cache init_memory_pool _create_buffers",
        "vllm/",
        "sglang/",
        keeps=True,
    ),
    _rule(DECODE, "forward_decode", "sglang/", keeps=True),
    _rule(PREFILL, "forward_extend forward_prefill", "sglang/", keeps=True),
    _rule(GENERATE, "execute_model", "vllm/"),
    _rule(LOAD, "load_model load_weights", "vllm/", "sglang/", keeps=True),
    _rule(
        LOAD,
        "from_pretrained _load_pretrained_model load_checkpoint_and_dispatch "
        "load_checkpoint_in_model load_state_dict _load_state_dict_into_meta_model "
        "_load_state_dict_into_model set_module_tensor_to_device quantize_4bit "
        "create_quantized_param convert_and_load_state_dict_in_model dispatch_model load_adapter",
        keeps=True,
    ),
    _rule(LOAD, "_apply to cuda", "torch/nn/modules/module.py", keeps=True),
    _rule(
        STATES,
        "_init_group get_state_buffer init_state initialize_optimizer_states _init_state",
        keeps=True,
    ),
    _rule(STATES, "step", code=("zeros_like(", "exp_avg_sq = ", "exp_avg = ")),
    _rule(
        STEP,
        "step optimizer_step run_optimizer_step _maybe_opt_step _take_model_step",
        "optim",
        "grad_scaler",
        "accelerate",
        "deepspeed",
        "scaler",
    ),
    _rule(STEP, "", code=("optimizer.step(", "scaler.step(")),
    _rule(STEP, "step _take_model_step", "zero/", "deepspeed/"),
    _rule(BACKWARD, "backward run_backward _engine_run_backward training_backward", keeps=True),
    _rule(
        SETUP,
        "initialize _prepare_deepspeed _configure_distributed_model _configure_zero_optimizer "
        "_broadcast_model prepare_model _init_fsdp _init_param_handle_from_module",
        "deepspeed/",
        "accelerate/",
        "torch/distributed/",
        keeps=True,
    ),
    _rule(
        LOSS,
        "loss_function ForCausalLMLoss fixed_cross_entropy cross_entropy cross_entropy_loss "
        "ForMaskedLMLoss fused_linear_cross_entropy linear_cross_entropy log_softmax "
        "selective_log_softmax compute_log_probs _get_per_token_logps "
        "_get_per_token_logps_and_entropies get_batch_logps logprobs_from_logits",
        keeps=True,
    ),
    _rule(LOSS, "forward", code=("lm_head(", "logits.float()", "loss_fct("), keeps=True),
    _rule(GENERATE, "generate", "generation", "generate"),
    _rule(PREFILL, "_prefill _prefill_chunking prefill"),
    _rule(DECODE, "update", "cache_utils.py"),
    _rule(
        ATTENTION,
        "_flash_attention_forward flash_attn_func flash_attn_varlen_func "
        "sdpa_attention_forward eager_attention_forward scaled_dot_product_attention "
        "repeat_kv flex_attention_forward",
    ),
    _rule(ATTENTION, "forward", "flash_attn", "xformers"),
    _rule(FORWARD, "forward training_step compute_loss"),
)
_INNER = frozenset({FORWARD.what, ATTENTION.what, LOSS.what})
_SERVES = frozenset({GENERATE.what, PREFILL.what, DECODE.what, PROFILE.what})
_BY_SUBJECT = {
    "kv_cache": POOL,
    "cuda_graphs": GRAPHS,
    "sampler_state": SAMPLER,
    "weights": LOAD,
    "communication_buffers": COMMUNICATION,
    "library_workspaces": LIBRARY,
    "device_context": LIBRARY,
    "activations": PREFILL,
}


def find_place(failure: Failure) -> Place | None:
    """Return the place of a failure, by its words or its traceback."""
    if failure.subject in _BY_SUBJECT and failure.speaker is not FailureSpeaker.CUDA:
        return _BY_SUBJECT[failure.subject]
    place = classify_frames(failure.frames)
    return place if place is not None else _BY_SUBJECT.get(failure.subject)


def classify_frames(frames: Iterable[Frame]) -> Place | None:
    """Return the place of a traceback, ``None`` where no frame names one."""
    rule: _Rule | None = None
    inner: Frame | None = None
    for frame in frames:
        match = next((entry for entry in _RULES if entry.matches(frame)), None)
        if match is None or (rule is not None and not _may_follow(rule, match)):
            continue
        rule, inner = match, frame
    if rule is None:
        return None
    place = rule.place
    return Place(instant=place.instant, terms=place.terms, what=place.what, frame=inner)


def _may_follow(outer: _Rule, inner: _Rule) -> bool:
    """Return whether frames inside of a place have another."""
    if outer.keeps:
        return False
    serves = outer.place.what in _SERVES
    return not serves or inner.place.what not in _INNER
