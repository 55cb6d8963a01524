"""Questions of launches as answers."""

from service.contract.schemas.imports.launches import (
    LaunchImportAnswer,
    OpenQuestionAnswer,
    ReadKeyAnswer,
)
from service.contract.to_question.launches import LaunchQuestion


def build_launch_answer(question: LaunchQuestion) -> LaunchImportAnswer:
    """Return the contract's answer to an import of a launch."""
    imported = question.imported
    return LaunchImportAnswer(
        launcher=imported.launcher,
        question=dict(question.document),
        read=[
            ReadKeyAnswer(key=item.key, value=item.value, meaning=item.meaning, where=item.where)
            for item in imported.read
        ],
        without_effect=list(imported.without_effect),
        ignored=list(imported.ignored),
        questions=[
            OpenQuestionAnswer(
                field=item.field,
                why=item.why,
                choices=list(item.choices),
                lower_bound=item.lower_bound,
            )
            for item in question.questions
        ],
        missing=list(question.missing),
        refusal=question.refusal,
        warnings=list(imported.warnings),
        versions=dict(imported.versions),
    )
