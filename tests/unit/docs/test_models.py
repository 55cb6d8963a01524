"""The page of what is modelled names everything that a request may name."""

import re

from service.catalog.recorded_models import read_recordings_index
from service.estimator.model.families.registry import list_model_types
from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Engine, Quantization
from tests.unit.docs.pages import read_page

WORDS = set(re.findall(r"`([^`]+)`", read_page("docs/models.md")))


def test_every_model_type_is_there() -> None:
    """A family that is added is added to the page, and README counts it."""
    assert set(list_model_types()) <= WORDS
    assert f" {len(list_model_types())} `model_type`s written by hand, " in read_page("README.md")


def test_shipped_recordings_are_counted() -> None:
    """README says of how many types recordings come with Headroom."""
    types = {recording["model_type"] for recording in read_recordings_index().values()}

    assert f"by hand, {len(types)} by recordings that come" in read_page("README.md")


def test_every_word_of_a_workload_is_there() -> None:
    """Optimizers, precision policies, engines and formats of weights."""
    formats = {
        quantization.value for quantization in Quantization if quantization is not Quantization.NONE
    }

    assert {
        *OptimizerName,
        *POLICIES,
        *(engine.value for engine in Engine),
        *formats,
    } <= WORDS
