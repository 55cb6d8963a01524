"""Names of optimizers: ours, and those of transformers' ``--optim``."""

from dataclasses import dataclass
from enum import StrEnum


class OptimizerName(StrEnum):
    """Optimizer by its library and the format of its states.

    A name of transformers' ``OptimizerNames`` is read as the member that it means.
    """

    ADAMW = "adamw"
    ADAMW_FUSED = "adamw_fused"
    ADAMW_LOOP = "adamw_loop"
    ADAMW_8BIT = "adamw_8bit"
    PAGED_ADAMW_8BIT = "paged_adamw_8bit"
    ADAMW_BNB = "adamw_bnb"
    PAGED_ADAMW = "paged_adamw"
    ADAMW_8BIT_TORCHAO = "adamw_8bit_torchao"
    ADAMW_4BIT = "adamw_4bit"
    SCHEDULE_FREE_ADAMW = "schedule_free_adamw"
    SCHEDULE_FREE_RADAM = "schedule_free_radam"
    SCHEDULE_FREE_SGD = "schedule_free_sgd"
    STABLE_ADAMW = "stable_adamw"
    ADAFACTOR = "adafactor"
    ADAFACTOR_TORCH = "adafactor_torch"
    ADAGRAD = "adagrad"
    RMSPROP = "rmsprop"
    RMSPROP_BNB = "rmsprop_bnb"
    RMSPROP_8BIT = "rmsprop_8bit"
    SGD = "sgd"
    SGD_MOMENTUM = "sgd_momentum"
    LION = "lion"
    LION_8BIT = "lion_8bit"
    PAGED_LION = "paged_lion"
    PAGED_LION_8BIT = "paged_lion_8bit"
    ADEMAMIX = "ademamix"
    ADEMAMIX_8BIT = "ademamix_8bit"
    PAGED_ADEMAMIX = "paged_ademamix"
    PAGED_ADEMAMIX_8BIT = "paged_ademamix_8bit"
    MUON = "muon"
    GALORE_ADAMW = "galore_adamw"
    APOLLO = "apollo"
    ONEBIT_ADAM = "onebit_adam"
    ZERO_ONE_ADAM = "zero_one_adam"
    ONEBIT_LAMB = "onebit_lamb"

    @classmethod
    def _missing_(cls, value: object) -> "OptimizerName | None":
        return TRAINER_NAMES.get(value) if isinstance(value, str) else None


TRAINER_NAMES: dict[str, OptimizerName] = {
    "adamw_torch": OptimizerName.ADAMW,
    "adamw_torch_fused": OptimizerName.ADAMW_FUSED,
    "adamw_bnb_8bit": OptimizerName.ADAMW_8BIT,
    "paged_adamw_32bit": OptimizerName.PAGED_ADAMW,
    "adamw_torch_4bit": OptimizerName.ADAMW_4BIT,
    "adamw_torch_8bit": OptimizerName.ADAMW_8BIT_TORCHAO,
    "lion_32bit": OptimizerName.LION,
    "paged_lion_32bit": OptimizerName.PAGED_LION,
    "paged_ademamix_32bit": OptimizerName.PAGED_ADEMAMIX,
    "rmsprop_bnb_32bit": OptimizerName.RMSPROP_BNB,
    "rmsprop_bnb_8bit": OptimizerName.RMSPROP_8BIT,
    "apollo_adamw": OptimizerName.APOLLO,
}
"""Names of transformers 5.23 (``training_args.py``, ``OptimizerNames``) that are not ours."""

COMPRESSING: dict[OptimizerName, str] = {
    OptimizerName.ONEBIT_ADAM: "OneBitAdam",
    OptimizerName.ZERO_ONE_ADAM: "ZeroOneAdam",
    OptimizerName.ONEBIT_LAMB: "OneBitLamb",
}
"""DeepSpeed's optimizers that exchange one bit an element, by its names (``runtime/config.py``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmodelled:
    """Why an optimizer has no term, and the nearest that has one."""

    reason: str
    nearest: OptimizerName

    def explain(self, name: str) -> str:
        """Return the refusal as a sentence."""
        return f"optimizer {name!r} has no term: {self.reason}. The nearest is {self.nearest!s}."


_IN_BACKWARD = "its steps inside backward are not modelled"

UNMODELLED: dict[str, Unmodelled] = {
    name: Unmodelled(reason=reason, nearest=nearest)
    for name, reason, nearest in (
        ("adamw_torch_xla", "it runs on TPUs, not on CUDA", OptimizerName.ADAMW_FUSED),
        ("adamw_torch_npu_fused", "it runs on NPUs, not on CUDA", OptimizerName.ADAMW_FUSED),
        (
            "adamw_anyprecision",
            "its package torchdistX is not published any more",
            OptimizerName.ADAMW_LOOP,
        ),
        (
            "galore_adamw_8bit",
            "galore-torch 1.0 calls bitsandbytes with arguments that 0.50 does not take",
            OptimizerName.GALORE_ADAMW,
        ),
        (
            "galore_adafactor",
            "its projected second moments are not modelled",
            OptimizerName.GALORE_ADAMW,
        ),
        ("galore_adamw_layerwise", _IN_BACKWARD, OptimizerName.GALORE_ADAMW),
        ("galore_adamw_8bit_layerwise", _IN_BACKWARD, OptimizerName.GALORE_ADAMW),
        ("galore_adafactor_layerwise", _IN_BACKWARD, OptimizerName.GALORE_ADAMW),
        ("apollo_adamw_layerwise", _IN_BACKWARD, OptimizerName.APOLLO),
        ("lomo", f"{_IN_BACKWARD} (sgd's are, with optimizer_in_backward)", OptimizerName.SGD),
        ("adalomo", _IN_BACKWARD, OptimizerName.ADAFACTOR),
        (
            "grokadamw",
            "its states go to the host and back tensor by tensor",
            OptimizerName.ADAMW_LOOP,
        ),
    )
}
"""The other names of transformers 5.23, none of which is a word of ours."""
