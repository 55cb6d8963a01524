"""Rules of ``torch.compile`` over transformers' own code.

What inductor keeps for backward is its partitioner's choice, which is known for plain steps of the
families whose norms, rotations and gates Liger replaces.
"""

from service.estimator.rules.grammar.conditions import is_at_most, is_in, is_true
from service.estimator.rules.grammar.fields import layout, model, workload
from service.estimator.rules.grammar.rule import Rule, Topic, unmodelled
from service.estimator.values.losses import COMPILED_FAMILIES, Kernels, Loss, Trainer
from service.estimator.values.workload import Checkpointing, Method

_REASON = "what inductor's partitioner keeps for backward is not known"

COMPILED = tuple(
    Rule(
        when=is_true(workload.compile),
        require=required,
        field=workload.compile.path,
        topic=Topic.SWITCHES,
        refusal=unmodelled(f"compile {wording}", *alternatives, "compile false"),
        reason=f"compile {wording}: {_REASON}",
        source="torch 2.13 _functorch/partitioners.py, min_cut_rematerialization_partition",
    )
    for required, wording, alternatives in (
        (
            is_in(model.family, *COMPILED_FAMILIES),
            "of {model.family}",
            COMPILED_FAMILIES,
        ),
        (
            is_in(workload.activation_checkpointing, Checkpointing.NONE),
            "with activation_checkpointing {workload.activation_checkpointing}",
            ["activation_checkpointing none"],
        ),
        (
            is_in(workload.method, Method.FULL),
            "with method {workload.method}",
            ["method full"],
        ),
        (
            is_in(workload.kernels, Kernels.TORCH),
            "with kernels {workload.kernels}",
            ["kernels torch"],
        ),
        (
            is_in(workload.loss, Loss.FULL_LOGITS),
            "with loss {workload.loss}",
            ["loss full_logits"],
        ),
        (
            is_in(workload.trainer, Trainer.SUPERVISED),
            "with trainer {workload.trainer}",
            ["trainer supervised"],
        ),
        (
            is_at_most(layout.zero_stage, 0),
            "with zero_stage {layout.zero_stage}",
            ["zero_stage 0"],
        ),
        (
            is_at_most(layout.tensor_parallel, 1),
            "with tensor_parallel {layout.tensor_parallel}",
            ["tensor_parallel 1"],
        ),
    )
)
