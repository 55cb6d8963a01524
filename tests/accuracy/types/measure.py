"""One type counted twice and, where it has a recording, traced at a size that did not make it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING

from service.catalog.models import list_recorded_models, load_architecture, load_config
from service.estimator.model.families.registry import architecture_from_config, list_model_types
from service.estimator.model.recorded.architecture import RecordedArchitecture
from service.estimator.values.errors import NotModelledError
from tests.accuracy.types.configs import make_default_config
from tests.accuracy.types.needed import NEEDED
from tests.accuracy.types.rows import Row, read_rows
from tests.accuracy.types.shipping import Steps
from worker.probes.architecture.check import compute_peak, sum_gradients, trace_pass
from worker.probes.architecture.listening.listen import Extent, make_fake_model
from worker.probes.architecture.listening.variants import VARIANTS
from worker.probes.architecture.static import count_parameters
from worker.probes.models.model_class import find_class, settle_config

EXTENT = Extent(batch=7, length=384)
"""Sequences and tokens of the pass that is compared: no recording runs it."""
SMALL = Extent(batch=3, length=97)
"""Those of a pass whose gradients take more than its activations, where its length is recorded."""


def measure(model_type: str) -> Row:
    """Return what is found of a type; nothing that its code raises goes further."""
    written = model_type in list_model_types()
    fields: dict[str, Any] = {
        "written": written,
        "folder": CONFIG_MAPPING[model_type].__module__.split(".")[-2],
        "releases": {"transformers": transformers.__version__, "torch": torch.__version__},
    }
    try:
        model_class = find_class({"model_type": model_type})
        fields["model_class"] = model_class.__name__
        fields["counted"] = _count(model_type)
        config = make_default_config(model_type)
        if written:
            fields["answered"] = architecture_from_config(config).parameter_counts().total
        else:
            fields["answered"] = count_parameters(config)["total"]
    except Exception as error:  # noqa: BLE001 - any code of transformers runs here
        fields["reason"] = _describe(error)
        return Row(model_type=model_type, **fields)
    return Row(model_type=model_type, **fields, **_score(model_type))


def _count(model_type: str) -> int:
    """Return the parameters of the class as its authors build it, tied ones once."""
    config = CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
    with torch.device("meta"):
        model: Any = find_class({"model_type": model_type})(config)
    return sum(weight.numel() for weight in model.parameters())


def _score(model_type: str) -> Mapping[str, Any]:
    """Return the recording's step beside a plain one, where a recording is shipped."""
    entry = next((e for e in list_recorded_models() if e.model_type == model_type), None)
    if entry is None:
        row = read_rows().get(model_type)
        return {} if row is None else {"refused": row.refused}
    model = load_architecture(entry)
    assert isinstance(model, RecordedArchitecture)
    steps = compare_steps(model, load_config(entry))
    return {"passes": tuple(model.recorded.passes), **describe_steps(steps)}


def describe_steps(steps: Steps) -> dict[str, Any]:
    """Return the fields of a row that say how steps compare."""
    traced, recorded = steps.large
    return {
        "traced": traced,
        "recorded": recorded,
        "small": steps.small,
        "gradients": steps.gradients,
    }


def compare_steps(model: RecordedArchitecture, config: Mapping[str, Any]) -> Steps:
    """Return bytes of plain steps of all layers, and of the recording.

    Of a class without a loss they are those of a pass without labels; images are of their one size.
    """
    reads = model.recorded.reads
    phase = "" if model.recorded.trains else "/forward"
    # FNet's transforms have no half precision.
    formats = "half" if f"half{phase}" in model.recorded.passes else "fp32"
    variant = VARIANTS[f"{formats}{phase}"]
    large, small = (
        extent if reads is None or reads.grows else replace(extent, length=1)
        for extent in (EXTENT, SMALL)
    )
    try:
        compute_peak(model, variant, small)
    except NotModelledError:
        # Scans of few chunks, and lengths below a window, may have no piece.
        small = replace(small, length=large.length)
    with make_fake_model(config, settle_config(config), variant) as fake:
        peak, _ = trace_pass(fake, variant, large)
        small_peak, gradients = trace_pass(fake, variant, small)
    return Steps(
        large=(peak, compute_peak(model, variant, large)),
        small=(small_peak, compute_peak(model, variant, small)),
        gradients=(gradients, 0 if phase else sum_gradients(model, variant, small)),
    )


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    library = text.partition(" requires the ")[2].partition(" library")[0]
    if library:
        return f"transformers builds it where {library} is installed"
    if "has no model of" in text:
        return "a part of another type, without a class of its own"
    return f"{type(error).__name__}: {text[:140]}"
