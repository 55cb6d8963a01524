"""Release of an engine, by its image's tag."""

from service.formats.launches.sources.handed_in import HandedIn
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.settings import Setting, make_default


def put_release(draft: Draft, handed_in: HandedIn, package: str, newest: str) -> None:
    """Set the release of a container's image.

    The newest that is known is noted where no image names one.
    """
    command = handed_in.command
    if command is None or not command.version:
        release = make_default("engine_version", newest, "the newest release that is known")
        draft.note(
            release, "the release whose defaults hold; workload.engine_version names another"
        )
        return
    image = Setting(key="image", value=command.version, where=command.where)
    draft.put("workload.engine_version", command.version, image)
    draft.set_version(package, command.version)
