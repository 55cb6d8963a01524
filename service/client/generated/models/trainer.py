from typing import Literal

Trainer = Literal["cpo", "dpo", "grpo", "kto", "orpo", "reward", "simpo", "supervised"]

TRAINER_VALUES: set[Trainer] = {
    "cpo",
    "dpo",
    "grpo",
    "kto",
    "orpo",
    "reward",
    "simpo",
    "supervised",
}


def check_trainer(value: str) -> Trainer:
    if value in TRAINER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAINER_VALUES!r}")
