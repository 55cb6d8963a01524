"""Rules of the layouts of which a probe can run one rank."""

from service.estimator.rules.grammar.conditions import (
    any_of,
    is_absent,
    is_at_most,
    is_false,
    is_given,
    is_in,
    is_not_in,
    is_same,
)
from service.estimator.rules.grammar.fields import layout, precision, workload
from service.estimator.rules.grammar.rule import Rule
from service.estimator.values.layout import Sharding

_LOOP, _RANKS, _MODELS = "worker/probes/run", "worker/probes/ranks", "worker/probes/models"

_STAGE = "a stage of a pipeline is a model of its own, and transformers trains through none"

_DEGREES = (
    (layout.pipeline_parallel, _STAGE),
    (layout.context_parallel, "transformers splits no sequences over ranks"),
    (
        layout.expert_parallel,
        "how many tokens reach a rank's experts depends on the other ranks, which do not exist",
    ),
    (layout.virtual_pipeline_stages, _STAGE),
)

_SHARDINGS = {
    Sharding.FSDP1: "flat parameters are sliced by addresses, which fake tensors do not have",
    Sharding.DEEPSPEED: (
        "the package deepspeed would have to be installed and to talk to real ranks"
    ),
    Sharding.MEGATRON: "its optimizer is part of Megatron-LM, which runs no models of transformers",
}

RANKS = (
    *(
        Rule(
            require=is_in(degree, 1),
            obstacle=f"a probe runs {degree.path.rpartition('.')[2]} 1, not {{{degree.path}}}: "
            f"{reason}",
            source=_RANKS,
        )
        for degree, reason in _DEGREES
    ),
    Rule(
        require=any_of(
            is_absent(layout.expert_tensor_parallel),
            is_same(layout.expert_tensor_parallel, layout.tensor_parallel),
        ),
        obstacle="a probe splits experts as it splits layers: expert_tensor_parallel is "
        "{layout.tensor_parallel} or left out",
        source=_RANKS,
    ),
    Rule(
        require=is_false(layout.sequence_parallel),
        obstacle="transformers' tensor-parallel plans replicate norms and residuals: a probe runs "
        "sequence_parallel false",
        source="transformers 5.23, base_model_tp_plan",
    ),
)
"""One rank of any layout."""

TRAINING_RANKS = (
    Rule(
        require=is_not_in(layout.sharding, *_SHARDINGS),
        obstacle=lambda case: (
            "a probe runs ranks of sharding ddp and fsdp2, not "
            f"{case.layout.sharding.value}: {_SHARDINGS[case.layout.sharding]}"
        ),
        source=_RANKS,
    ),
    Rule(
        require=any_of(
            is_not_in(layout.sharding, Sharding.DDP),
            is_at_most(layout.tensor_parallel, 1),
            is_at_most(layout.data_parallel, 1),
        ),
        obstacle="beside tensor_parallel a probe shards with fsdp2: DDP takes no parameters that "
        "are split already",
        source="torch 2.13 nn/parallel/distributed.py",
    ),
    Rule(
        when=is_given(workload.lora),
        require=is_at_most(layout.tensor_parallel, 1),
        obstacle="a probe puts adapters on whole layers: ask with tensor_parallel 1 or method full",
        source=_RANKS,
    ),
    Rule(
        when=is_in(layout.sharding, Sharding.FSDP2),
        require=is_same(precision.grad_dtype, precision.param_dtype),
        obstacle="FSDP2 keeps gradients in the dtype of the parameters: with param_dtype "
        "{workload.precision.param_dtype} grad_dtype is {workload.precision.param_dtype} as well "
        "(reduce_dtype says what is summed)",
        source="torch 2.13 distributed/fsdp/_fully_shard",
    ),
)

SERVING_RANKS = (
    Rule(
        require=is_in(layout.sharding, Sharding.DDP),
        obstacle="a served replica is split by tensor_parallel alone, and sharding is "
        "{layout.sharding}: leave it out",
        source=_RANKS,
    ),
    Rule(
        require=is_at_most(layout.data_parallel, 1),
        obstacle="data-parallel replicas serve each for itself: ask for one of the "
        "{layout.data_parallel}, data_parallel 1",
        source=_RANKS,
    ),
)
