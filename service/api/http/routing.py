"""What the router knows of a path: its methods and its template."""

import re
from functools import cache

from litestar import Litestar
from litestar.routes import HTTPRoute

_PARAMETER = re.compile(r"\\{[^{}]+\\}")


@cache
def _pattern(path_format: str) -> re.Pattern[str]:
    return re.compile(_PARAMETER.sub("[^/]+", re.escape(path_format)))


def allowed_methods(app: Litestar, path: str) -> list[str]:
    """Return the methods that the resource at ``path`` has, HEAD wherever there is GET.

    A path that is a resource's own is not also one of a collection: ``/v1/measurements/import`` is no measurement.
    """
    routes = [route for route in app.routes if isinstance(route, HTTPRoute) and _pattern(route.path_format).fullmatch(path)]
    own = [route for route in routes if route.path_format == path]
    methods = {method for route in own or routes for method in route.methods}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
