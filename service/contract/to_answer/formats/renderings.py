"""Rendered fits, and the formats that there are."""

from service.contract.schemas.formats.renderings import FormatAnswer, RenderingAnswer
from service.contract.to_answer.renderings import make_job
from service.estimator.values.units import format_bytes
from service.formats.manifests.format import Format
from service.formats.manifests.registry import render_format
from service.formats.manifests.yaml_text import as_text
from service.formats.renderings.render import make_launch
from service.planner.fit.fit import FitReport
from service.planner.fit.verdict import Verdict
from service.usecases.questions.renderings import RenderingQuestion


def build_rendering_answer(question: RenderingQuestion, report: FitReport) -> RenderingAnswer:
    """Return a fit in a format.

    What does not fit is not started.
    """
    if report.verdict is Verdict.DOES_NOT_FIT:
        return RenderingAnswer(
            format=question.word,
            verdict=report.verdict.value,
            document=None,
            text=None,
            notes=[],
            reason=f"it does not fit: each GPU lacks {format_bytes(report.deficit_bytes)}",
        )
    job = make_job(question.names, question.fit, report.estimate, throughput=report.throughput)
    rendering = render_format(question.word, job)
    document = rendering.document
    return RenderingAnswer(
        format=question.word,
        verdict=report.verdict.value,
        document=document,
        text=None if document is None else as_text(document),
        notes=[] if document is None else list(make_launch(job).notes),
        reason=rendering.reason,
    )


def build_format(row: Format) -> FormatAnswer:
    """Return a format as the contract shows it."""
    return FormatAnswer(
        word=row.word,
        title=row.title,
        trains=row.trains,
        serves=row.serves,
        spans_nodes=row.spans_nodes,
        takes_slices=row.takes_slices,
        vendors=None if row.vendors is None else sorted(row.vendors),
        options=sorted(row.options),
    )
