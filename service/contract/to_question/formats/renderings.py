"""Decoded requests for a rendering as questions."""

from service.contract.schemas.fields import get_or_none
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.formats.renderings import RenderingRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.plans import name_objects, read_format_options
from service.planner.fit.parts import FitPart
from service.usecases.questions.renderings import RenderingQuestion


def read_rendering(word: str, request: RenderingRequest, model: ResolvedModel) -> RenderingQuestion:
    """Return the question of a request for a format."""
    fit = FitRequest(
        model=request.model,
        workload=request.workload,
        gpu=request.gpu,
        layout=request.layout,
        confidence=request.confidence,
        remedies=False,
        include=[FitPart.REPLAY],
    )
    return RenderingQuestion(
        fit=read_fit(fit, model),
        word=word,
        model_name=name_objects(request.model, model),
        checkpoints=model.checkpoints,
        image=get_or_none(request.container_image),
        options=read_format_options(request.format_options),
    )
