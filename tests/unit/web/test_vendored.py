"""What others made and we ship is what they published."""

import re
from hashlib import sha256

from service.web.assets import load_contents

_NOTED = re.compile(
    r"^(?P<name>\S+\.js) .*?sha256 (?P<digest>[0-9a-f]{64})$", re.MULTILINE | re.DOTALL
)


def test_every_vendored_file_is_as_published() -> None:
    """Each script of others is noted with its digest, which it has, and its licence lies beside
    it.
    """
    noted = {
        match["name"]: match["digest"]
        for match in _NOTED.finditer(load_contents()["vendor/VENDORED.txt"].decode())
    }
    shipped = {
        name.removeprefix("vendor/"): body
        for name, body in load_contents().items()
        if name.startswith("vendor/")
    }

    scripts = {
        name: sha256(body).hexdigest() for name, body in shipped.items() if name.endswith(".js")
    }
    assert scripts == noted
    assert all(f"{name.partition('.')[0]}-LICENSE.txt" in shipped for name in scripts)
