"""LitGPT as a backend: its fine-tuning scripts."""

from service.estimator.values.backend import Backend, Task

BACKEND = Backend(name="litgpt", answers={Task.TRAIN: "service.estimator.backends.litgpt.answer"})
