"""Decoded requests for a rendering as questions."""

from service.contract.schemas.fit import FitRequest
from service.contract.schemas.formats.renderings import RenderingRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.searches import read_job_names
from service.planner.fit.parts import FitPart
from service.usecases.questions.renderings import RenderingQuestion


def read_rendering(word: str, request: RenderingRequest, model: ResolvedModel) -> RenderingQuestion:
    """Return the question of a request for a format."""
    fit = FitRequest(
        model=request.model,
        workload=request.workload,
        gpu=request.gpu,
        layout=request.layout,
        cluster=request.cluster,
        confidence=request.confidence,
        remedies=False,
        include=[FitPart.REPLAY, FitPart.THROUGHPUT],
    )
    return RenderingQuestion(
        fit=read_fit(fit, model),
        word=word,
        names=read_job_names(request, model),
    )
