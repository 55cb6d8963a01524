from typing import Literal

TrainCeilingOptimizer = Literal[
    "adafactor",
    "adagrad",
    "adamw",
    "adamw_4bit",
    "adamw_8bit",
    "adamw_8bit_torchao",
    "adamw_bnb",
    "adamw_fused",
    "adamw_loop",
    "apollo",
    "galore_adamw",
    "lion",
    "lion_8bit",
    "muon",
    "paged_adamw",
    "paged_adamw_8bit",
    "paged_lion_8bit",
    "rmsprop",
    "schedule_free_adamw",
    "sgd",
    "sgd_momentum",
]

TRAIN_CEILING_OPTIMIZER_VALUES: set[TrainCeilingOptimizer] = {
    "adafactor",
    "adagrad",
    "adamw",
    "adamw_4bit",
    "adamw_8bit",
    "adamw_8bit_torchao",
    "adamw_bnb",
    "adamw_fused",
    "adamw_loop",
    "apollo",
    "galore_adamw",
    "lion",
    "lion_8bit",
    "muon",
    "paged_adamw",
    "paged_adamw_8bit",
    "paged_lion_8bit",
    "rmsprop",
    "schedule_free_adamw",
    "sgd",
    "sgd_momentum",
}


def check_train_ceiling_optimizer(value: str) -> TrainCeilingOptimizer:
    if value in TRAIN_CEILING_OPTIMIZER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAIN_CEILING_OPTIMIZER_VALUES!r}")
