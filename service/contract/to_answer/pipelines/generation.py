"""Answers to questions about pipelines."""

from msgspec.structs import replace

from service.contract.schemas.fit import FitAnswer
from service.contract.schemas.remedies import RemedyAnswer
from service.contract.to_answer.fits import build_fit_answer
from service.usecases.questions.generation import GenerationQuestion, GenerationReport


def build_generation_answer(report: GenerationReport, question: GenerationQuestion) -> FitAnswer:
    """Return a report as the contract's answer to a fit."""
    answer = build_fit_answer(report.fit, assumptions=question.assumptions)
    remedies = [
        RemedyAnswer(
            change=dict(remedy.change),
            saves_bytes=remedy.saves_bytes,
            verdict=remedy.verdict.value,
            effects=[],
            step_time_s=None,
            tokens_per_second=None,
            time_ratio=None,
            slowdown=None,
            cost_ratio=None,
            usd_per_million_tokens=None,
            gpu=question.device.name,
            num_gpus=1,
        )
        for remedy in report.remedies
    ]
    return replace(answer, remedies=remedies)
