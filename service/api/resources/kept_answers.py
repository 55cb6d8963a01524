"""Encoded answers to fit questions, kept for whoever asks again."""

from service.api.http.dependencies import Dependencies
from service.contract.to_question.models import ResolvedModel
from service.usecases.questions.answer_cache import FinishedAnswer, build_etag


def keep_answer(
    deps: Dependencies,
    question: bytes,
    answer: FinishedAnswer,
    model: ResolvedModel,
    *,
    calibrations: int,
    is_costly: bool = False,
) -> None:
    """Keep an answer while what it rests on holds.

    To be called by the thread that has the cache of answers.
    """
    # A name that is read as another's is free: a model may be stored under it at any time.
    if not model.notes:
        deps.answers.store(question, answer, calibrations=calibrations, is_costly=is_costly)
    deps.metrics.set_answer_cache_bytes(deps.answers.num_bytes)


def finish_answer(body: bytes, verdict: str, model: ResolvedModel) -> FinishedAnswer:
    """Return an answer with its tag and the model it rests on."""
    return FinishedAnswer(
        body=body,
        etag=build_etag(body),
        verdict=verdict,
        model=model.name,
        model_version=model.version,
    )
