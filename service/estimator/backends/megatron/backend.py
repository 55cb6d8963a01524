"""Megatron-LM as a backend."""

from service.estimator.values.backend import Backend, Task

BACKEND = Backend(
    name="megatron", answers={Task.TRAIN: "service.estimator.backends.megatron.answer"}
)
