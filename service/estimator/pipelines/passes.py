"""Recorded passes of a pipeline, by name and format."""

from service.estimator.pipelines.logs import Log, Peaks
from service.estimator.pipelines.recording import RecordedComponent, RecordedPipeline
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError


def find_pass(
    pipeline: RecordedPipeline, name: str, component: RecordedComponent, dtype: DType
) -> Log | Peaks:
    """Return a pass in a format.

    Raises NotModelledError where it is not recorded.
    """
    passes = pipeline.passes
    recorded = passes.get(f"{name}/{get_stored_format(component, dtype)}")
    if recorded is None and name.startswith(("decode/", "tile/")):
        parts = " in tiles or slices" if name.startswith("tile/") else ""
        message = f"decoding by {component.class_name} in {dtype.value}{parts}, not recorded"
        raise NotModelledError(message, field="workload.output_type", modelled=["latent"])
    if recorded is None:
        modelled = sorted(part.rpartition("/")[2] for part in passes if part.startswith(f"{name}/"))
        field = {"vae": "vae_dtype"}.get(
            component.name,
            "text_encoder_dtype" if component.name in pipeline.prompts else "dtype",
        )
        message = f"{component.name} in {dtype.value}"
        raise NotModelledError(message, field=f"workload.{field}", modelled=modelled)
    return recorded


def check_loops(pipeline: RecordedPipeline, guided: str, single: str) -> None:
    """Raise NotModelledError for a call without a recorded loop."""
    loops = [name.split("/") for name in pipeline.passes if name.startswith("loop/")]
    if guided not in {loop[1] for loop in loops}:
        message = f"a negative prompt of {pipeline.class_name}, whose call takes none"
        raise NotModelledError(message, field="workload.guidance", modelled=["false"])
    if single not in {loop[2] for loop in loops}:
        message = f"several pictures at once of {pipeline.class_name}, which takes them one by one"
        raise NotModelledError(message, field="workload.images_per_prompt", modelled=["1"])


def get_stored_format(component: RecordedComponent, dtype: DType) -> str:
    """Return the format that a pass is recorded in.

    fp16 runs as bf16 does where all parts of the component are in it.
    """
    return "bf16" if dtype is DType.FP16 and _is_alike(component) else dtype.value


def _is_alike(component: RecordedComponent) -> bool:
    """Return whether every tensor is as large in fp16 as in bf16."""
    return all(
        weight.itemsizes[0] == weight.itemsizes[1]
        for weights in component.modules.values()
        for weight in weights
    )
