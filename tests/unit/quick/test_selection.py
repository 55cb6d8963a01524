"""Which tests a change touches: read off what files name, and in which order."""

from tests.quick.arrows import compute_distances, find_needs, make_sources, reverse
from tests.quick.selection import select_tests

SOURCES = make_sources(
    {
        "service/core/tape.py": "",
        "service/core/estimate.py": "from service.core import tape\n",
        "service/core/families/llama.py": "",
        "service/core/registry.py": 'load(f"service.core.families.{name}")\n',
        "service/api/fit.py": "from service.core.estimate import estimate\n",
        "service/api/page.py": 'PAGE = read("page.html")\n',
        "service/jobs/notify.py": "",
        "tests/conftest.py": 'pytest_plugins = ["tests.servers"]\n',
        "tests/servers.py": "from service.db import session\n",
        "service/db/session.py": "",
        "tests/e2e/conftest.py": "from service.api.fit import fit\n",
        "tests/e2e/test_http.py": "",
        "tests/unit/api/test_fit.py": "from service.api.fit import fit\n",
        "tests/unit/api/test_page.py": "from service.api import (\n    page,\n)\n",
        "tests/unit/core/test_estimate.py": "import service.core.estimate\n",
        "tests/unit/core/test_registry.py": "from service.core.registry import load\n",
        "tests/unit/jobs/test_states.py": "",
    }
)


def test_who_imports_is_touched_nearest_first_and_servers_last() -> None:
    """A module reaches its tests through all that import it, and through fixtures."""
    assert select_tests(SOURCES, ["service/core/tape.py"])[:3] == [
        "tests/unit/core/test_estimate.py",
        "tests/unit/api/test_fit.py",
        "tests/e2e/test_http.py",
    ]


def test_a_changed_test_comes_first() -> None:
    """Whoever writes a test wants to know of it before all others, whatever it costs."""
    chosen = select_tests(SOURCES, ["service/core/tape.py", "tests/e2e/test_http.py"])

    assert chosen[0] == "tests/e2e/test_http.py"


def test_a_name_that_is_put_together_is_every_module_of_its_folder() -> None:
    """Families are loaded by their names, further away than what is imported."""
    distances = compute_distances(reverse(find_needs(SOURCES)), ["service/core/families/llama.py"])

    assert distances["tests/unit/core/test_registry.py"] == 4


def test_a_file_of_data_is_touched_where_its_name_is_written() -> None:
    """A page has no imports; who reads it writes its name."""
    chosen = select_tests(SOURCES, ["service/api/pages/page.html"])

    assert chosen == ["tests/unit/api/test_page.py"]


def test_what_nothing_imports_has_the_tests_of_its_room() -> None:
    """The unit tests beside it are better than none."""
    assert select_tests(SOURCES, ["service/jobs/notify.py"]) == ["tests/unit/jobs/test_states.py"]


def test_the_servers_of_all_tests_touch_nobody_who_does_not_ask() -> None:
    """Every test could have a database, and few do."""
    assert select_tests(SOURCES, ["service/db/session.py"]) == []


def test_house_rules_are_asked_of_every_changed_module() -> None:
    """They read the source of all, and import none."""
    texts = {**SOURCES.texts, "tests/architecture/test_shape.py": ""}

    assert select_tests(make_sources(texts), ["service/jobs/notify.py"]) == [
        "tests/unit/jobs/test_states.py",
        "tests/architecture/test_shape.py",
    ]


def test_nothing_changed_is_nothing_to_run() -> None:
    """A clean tree on main has no tests to choose."""
    assert select_tests(SOURCES, []) == []
