"""Tools for language models, called by the SDK's own client in memory."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import jsonschema_rs
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from service.__main__ import main
from service.access.keys import Scope
from service.cli.offline.fit import fit as fit_offline
from service.cli.offline.mcp import ask
from service.mcp.asking import Call, Reply
from service.mcp.bridge import make_bridge
from service.mcp.schemas import build_input_schema
from service.mcp.server import make_server
from service.mcp.tools import TOOLS, find_tool

REPOSITORY = Path(__file__).parents[3]
FIT: dict[str, Any] = {
    "model": "llama-2-7b",
    "gpu": "A100-SXM4-80GB",
    "workload": {"task": "train", "sequence_length": 4096},
}
SEARCH = {"model": "gpt2", "workload": {"task": "train", "sequence_length": 128}}
READ = (Scope.READ,)


def run(use: Callable[[Client], Awaitable[None]], *scopes: Scope) -> None:
    """Let a client use a server that answers offline."""
    server = make_server(version="1", ask=ask, get_scopes=lambda _scope: scopes or READ)

    async def main() -> None:
        async with Client(server) as client:
            await use(client)

    anyio.run(main)


def call(name: str, arguments: dict[str, Any], *scopes: Scope) -> CallToolResult:
    """Return the result of one tool."""
    results: list[CallToolResult] = []

    async def use(client: Client) -> None:
        results.append(await client.call_tool(name, arguments))

    run(use, *scopes)
    return results[0]


def read_text(result: CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert content.type == "text"
    return content.text


def list_names(*scopes: Scope) -> list[str]:
    """Return the names of the tools that somebody sees."""
    names: list[str] = []

    async def use(client: Client) -> None:
        names.extend(tool.name for tool in (await client.list_tools()).tools)

    run(use, *scopes)
    return names


def test_a_reader_sees_tools_that_change_nothing() -> None:
    """Who may plan may reserve as well; the hints say which tools change something."""
    assert list_names(*READ) == ["fit", "how_many", "plan", "explain", "post_mortem", "list"]
    assert list_names(Scope.READ, Scope.PLAN)[6:] == ["reserve", "release"]
    assert [tool.name for tool in TOOLS if not tool.is_read_only] == ["reserve", "release"]


def test_a_tool_that_a_key_may_not_call_is_not_there() -> None:
    """Neither listed nor called."""
    result = call("reserve", {"cluster": "a", "holder": "me"})

    assert result.is_error
    assert (
        "there is no tool 'reserve' here: fit, how_many, plan, explain, post_mortem"
        in read_text(result)
    )


def test_a_fit_is_the_answer_of_the_api() -> None:
    """Its verdict in words, and the numbers as they are."""
    result = call("fit", FIT)
    answer = fit_offline(FIT, None)

    shown = result.structured_content
    assert not result.is_error
    assert read_text(result).startswith("does not fit on 1 GPU: 129.75 GiB per GPU")
    assert shown["deficit_bytes"] == answer["deficit_bytes"]
    assert shown["remedies"] == answer["remedies"]
    assert shown["assumptions"] == answer["assumptions"]
    assert json.loads(read_text(result).partition("\n")[2]) == shown


def test_an_explanation_has_every_component_with_its_source() -> None:
    """The components sum to the bytes of a GPU."""
    per_gpu = call("explain", FIT).structured_content["per_gpu"]

    assert sum(part["bytes"] for part in per_gpu["components"]) == per_gpu["device_bytes"]
    assert all(part["formula"] and part["source"] for part in per_gpu["components"])


def test_numbers_and_plans_are_searched() -> None:
    """The number in words; of a plan the launch files of the best alone."""
    number = call("how_many", SEARCH | {"gpu": "L4"})
    plan = call("plan", SEARCH | {"gpus": ["L4", "H200"]})

    assert read_text(number).startswith("1 x L4\n")
    best, *others = plan.structured_content["candidates"]
    assert best["fit"]["verdict"] == "fits"
    assert best["requests"]
    assert all("requests" not in other for other in others)


def test_a_number_that_is_too_small_is_told_as_the_command_line_does() -> None:
    """With the number that would be enough, and a GPU without a name by its memory."""
    large = SEARCH | {"model": "llama-2-7b", "constraints": {"max_gpus": 2}}

    assert read_text(call("how_many", large | {"gpu": "L4"})).startswith(
        "L4: 2 GPUs are not enough, "
    )
    assert read_text(call("plan", large | {"gpus": ["L4"]})).startswith(
        "nothing that was offered is enough: 2 GPUs are not enough, "
    )
    assert read_text(call("how_many", SEARCH | {"gpu": {"memory_bytes": "8Gi"}})).startswith(
        "1 x a GPU of 8.00 GiB\n"
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"kind": "gpus", "contains": "h200-sxm"}, "H200-SXM5-141GB"),
        ({"kind": "models", "contains": "Llama-2-13b-hf"}, "llama-2-13b"),
        ({"kind": "families", "contains": "mixtral"}, "mixtral"),
    ],
)
def test_lists_are_searched_by_name(arguments: dict[str, Any], name: str) -> None:
    """By names and aliases, in any case, and how many there are is told."""
    shown = call("list", arguments).structured_content

    assert [item["name"] for item in shown["items"]] == [name]
    assert shown["num_all"] > shown["num_matching"] == 1


def test_a_list_is_cut_at_its_limit() -> None:
    """A model is not drowned in names."""
    shown = call("list", {"kind": "models", "limit": 3}).structured_content

    assert len(shown["items"]) == 3
    assert shown["num_matching"] > 100


@pytest.mark.parametrize(
    ("name", "arguments", "says", "slug"),
    [
        ("fit", FIT | {"model": "llama 70b"}, "say which of llama-2-70b", "unknown-model"),
        ("fit", FIT | {"gpu": "A100"}, "A100-SXM4-40GB", "unknown-gpu"),
        ("fit", {"model": "gpt2"}, "required and missing", "invalid-request"),
        (
            "explain",
            FIT | {"workload": {"task": "train", "sequence_length": 9, "optimizer": "adam_w"}},
            "Did you mean 'adamw'?",
            "invalid-request",
        ),
        ("list", {"kind": "gps"}, "Did you mean 'gpus'?", "invalid-request"),
        ("list", {"kind": "clusters"}, "HEADROOM_URL", "invalid-request"),
    ],
)
def test_a_refusal_says_what_would_be_right(
    name: str, arguments: dict[str, Any], says: str, slug: str
) -> None:
    """In words that a model can act on, and as the problem document."""
    result = call(name, arguments)

    assert result.is_error
    assert says in read_text(result)
    assert result.structured_content["type"] == slug


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_those_of_the_contract(tool: Any) -> None:  # noqa: ANN401 - a tool
    """Objects that refer to nothing outside, with every field of the struct."""
    schema = build_input_schema(tool.arguments)
    fields = set(tool.arguments.__struct_encode_fields__)

    assert schema["type"] == "object"
    assert set(schema["properties"]) == fields
    jsonschema_rs.meta.validate(
        {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
    )
    references = {word for word in json.dumps(schema).split('"') if word.startswith("#/")}
    assert {reference.rpartition("/")[2] for reference in references} <= set(
        schema.get("$defs", {})
    )


def test_a_question_that_is_answered_is_valid_by_its_schema() -> None:
    """What clients check before they send; and what is wrong is refused by it."""
    tool = find_tool("fit")
    assert tool is not None
    schema = build_input_schema(tool.arguments)

    assert jsonschema_rs.is_valid(schema, FIT)
    assert not jsonschema_rs.is_valid(schema, FIT | {"workload": {"task": "serve"}})


def test_a_bridge_passes_everything_on() -> None:
    """Tools, answers and refusals of the server behind it, with that server's scopes."""
    asked: list[Call] = []

    async def answer(one: Call, _scope: Mapping[str, Any] | None) -> Reply:
        asked.append(one)
        return await ask(one, None)

    behind = make_server(version="7", ask=answer, get_scopes=lambda _scope: list(Scope))

    async def main() -> None:
        async with Client(behind) as remote, Client(make_bridge(remote)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("fit", FIT | {"gpu": "A100"})
            assert names == [tool.name for tool in TOOLS]
            assert result.is_error
            assert "A100-SXM4-40GB" in read_text(result)
            assert client.server_info is not None
            assert client.server_info.version == "7"

    anyio.run(main)
    assert [one.operation for one in asked] == ["fit"]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("lab:8000", "'lab:8000' is no address of a server"),
        ("http://127.0.0.1:1", "no tools are at http://127.0.0.1:1/mcp"),
    ],
)
def test_a_server_without_tools_is_told(
    capsys: pytest.CaptureFixture[str], url: str, says: str
) -> None:
    """In a line, before the protocol begins."""
    assert main(["mcp", "--server", url]) == 2

    assert says in capsys.readouterr().err


def test_a_server_that_has_other_pages_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever answers with 404 there has no tools."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert main(["mcp", "--server", url]) == 2
        server.shutdown()

    assert f"no tools are at {url}/mcp" in capsys.readouterr().err


def test_the_command_speaks_over_stdin_and_stdout() -> None:
    """What an application starts: nothing but the protocol is on stdout."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "service", "mcp", "--offline"],
        env={"PYTHONPATH": str(REPOSITORY)},
    )

    async def main() -> None:
        async with Client(parameters) as client:
            tools = (await client.list_tools()).tools
            result = await client.call_tool("list", {"kind": "gpus", "contains": "L4"})
            assert tools[0].name == "fit"
            assert "L4" in read_text(result)
            assert client.instructions is not None

    anyio.run(main)
