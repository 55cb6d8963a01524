"""torchtitan's configuration as a Python function.

0.3.0, ``torchtitan/config/{manager,configs}.py``: ``--module`` names a module that can be imported
and ``--config`` a function of it, which returns ``Trainer.Config``. Fields have the names of the
TOML of 0.2.2, but for those that are gone, recomputation, which is a class, and the optimizer,
which is the model's. CUDA graphs are off, as they were in 0.2: their pools are no part of a plan,
and 0.3 refuses them in a pipeline.
"""

from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Checkpointing, TrainWorkload
from service.formats.renderings.torchtitan import render_torchtitan_tables

MODULE, FUNCTION = "torchtitan_config", "configure_plan"
_TABLES = ("training", "parallelism", "compile", "debug")
_GONE = frozenset({"disable_loss_parallel"})
_RECOMPUTATION = {
    Checkpointing.NONE: "None",
    Checkpointing.FULL: "FullAC.Config()",
    Checkpointing.SELECTIVE: "SelectiveAC.Config()",
}
_HEAD = f'''"""What a plan fixes, on the configuration of your model, for torchtitan 0.3."""

from importlib import import_module
from os import environ

from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.trainer import Trainer


def {FUNCTION}() -> Trainer.Config:
    models = import_module(f"torchtitan.models.{{environ['TORCHTITAN_MODULE']}}.config_registry")
    config = getattr(models, environ["TORCHTITAN_CONFIG"])()
'''


def render_torchtitan_module(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> str | None:
    """Return a module for torchtitan 0.3, None where it lacks fields."""
    if find_unexpressed(workload):
        return None
    tables = render_torchtitan_tables(model, workload, layout)
    lines = [
        f"    config.{table}.{name} = {value!r}\n"
        for table in _TABLES
        for name, value in tables.get(table, {}).items()
        if name not in _GONE
    ]
    recomputation = _RECOMPUTATION[workload.activation_checkpointing]
    lines += [
        f"    config.activation_checkpoint = {recomputation}\n",
        "    config.training.disable_cuda_graphs = True\n",
        "    return config\n",
    ]
    return _HEAD + "".join(lines)


def find_unexpressed(workload: TrainWorkload) -> tuple[str, ...]:
    """Return parts of a workload that no field of 0.3 says."""
    precision = workload.precision
    reduced = (precision.reduce_dtype or precision.grad_dtype).value
    dtypes = {precision.param_dtype.value, precision.compute_dtype.value}
    parts = {
        "products in fp8": workload.float8,
        "recomputation of every n-th layer": workload.selective_every is not None,
        "a step in backward": workload.optimizer_in_backward,
        f"gradients reduced in {reduced}": reduced != "fp32",
        "fp16": "fp16" in dtypes,
        "this recomputation": workload.activation_checkpointing not in _RECOMPUTATION,
    }
    return tuple(part for part, is_asked in parts.items() if is_asked)


def explain_torchtitan_module(workload: TrainWorkload) -> str:
    """Return how 0.3 is started, or why it cannot be."""
    unexpressed = find_unexpressed(workload)
    if unexpressed:
        return f"torchtitan 0.3 has no field for {', '.join(unexpressed)}: use 0.2.2"
    return (
        f"torchtitan 0.3 reads {MODULE}.py: --module {MODULE} --config {FUNCTION} in place of "
        "--job.config_file, with TORCHTITAN_MODULE and TORCHTITAN_CONFIG that name your model's "
        "configuration, such as llama3 and llama3_8b, and PYTHONPATH with the file's folder"
    )
