from typing import Literal

Trainer = Literal["dpo", "grpo", "kto", "reward", "supervised"]

TRAINER_VALUES: set[Trainer] = {
    "dpo",
    "grpo",
    "kto",
    "reward",
    "supervised",
}


def check_trainer(value: str) -> Trainer:
    if value in TRAINER_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {TRAINER_VALUES!r}")
