"""torchtitan as a backend."""

from service.estimator.values.backend import Backend, Task

BACKEND = Backend(
    name="torchtitan", answers={Task.TRAIN: "service.estimator.backends.torchtitan.answer"}
)
