"""Lists of answers that are encoded once: the same bytes as those of lists."""

from typing import Any

from service.contract.encoding import encode
from service.contract.to_answer.fit_parts.builder import PART_BUILDER, PartBuilder
from service.contract.to_answer.fit_parts.encoded import EncodedParts
from service.contract.to_answer.fits import build_fit_answer
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo, OfObjects
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.fit import FitReport, assess_fit
from tests.builders import a_device
from tests.unit.usecases.builders import named_model

MODEL = named_model("tiny").architecture


def make_report() -> FitReport:
    """Return a fit that explains itself."""
    evaluator = make_evaluator(MODEL, a_device())
    return assess_fit(evaluator, TrainWorkload(sequence_length=64), Layout())


def test_an_answer_of_encoded_lists_has_the_same_bytes() -> None:
    """The first time and again, and where a list is empty."""
    memo: Memo[OfObjects[Any]] = Memo(8)
    report = make_report()

    def show(builder: PartBuilder) -> bytes:
        return encode(build_fit_answer(report, builder=builder))

    expected = show(PART_BUILDER)
    assert show(EncodedParts(memo)) == expected
    assert show(EncodedParts(memo)) == expected
    assert len(memo) == 3
    empty = encode(build_fit_answer(report, parts=frozenset(), builder=EncodedParts(memo)))
    assert empty == encode(build_fit_answer(report, parts=frozenset()))
