"""A program beside a server."""

from service.runtime.background_program import BackgroundProgram


def test_a_program_ends_with_its_server() -> None:
    """One that would go on is ended, and one that was never started needs no end."""
    program = BackgroundProgram("http.server", ["--bind", "127.0.0.1", "0"])
    program.stop()
    program.start()
    process = program._process  # noqa: SLF001 - what a server never looks at

    program.stop()

    assert process is not None
    assert process.returncode is not None
