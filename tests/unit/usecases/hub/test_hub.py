"""Models on a hub: three requests, a pinned commit, and nothing that leads anywhere else."""

import json
import threading
from typing import Any

import httpx
import pytest

from service.base.errors import ServiceError
from service.base.hub_errors import (
    HubContentError,
    HubOffError,
    HubRefusedError,
    HubUnavailableError,
)
from service.usecases.hub import hub as hub_module
from service.usecases.hub import reading
from service.usecases.hub.addresses import HubPolicy, is_public
from service.usecases.hub.hub import Hub
from service.usecases.hub.models import HubReference
from tests.unit.formats.checkpoints.files import FOLDER, read_model
from tests.unit.usecases.hub.fake_hub import (
    COMMIT,
    CONFIG,
    PARAMETERS,
    PUBLIC,
    TOKEN,
    FakeHub,
    make_repository,
    make_safetensors,
    redirect,
)

MODEL = HubReference(repository="org/name")
SECRET = HubReference(repository="org/name", token=TOKEN)


def read_refusal(fake: FakeHub, reference: HubReference = MODEL) -> ServiceError:
    """Return what a model is refused with; it never holds the token."""
    with pytest.raises(ServiceError) as refused:
        fake.make().fetch(reference)
    text = f"{refused.value!r} {refused.value.detail} {refused.value.extra}"
    assert TOKEN not in text
    assert "secretsignature" not in text
    return refused.value


def test_a_model_takes_three_requests() -> None:
    """Its commit, its config and the header of its file, each at that commit and from one host."""
    fake = FakeHub()

    model = fake.make().fetch(MODEL)

    assert [request.url.path for request in fake.requests] == [
        "/api/models/org/name/revision/main",
        f"/org/name/resolve/{COMMIT}/config.json",
        f"/org/name/resolve/{COMMIT}/model.safetensors",
    ]
    assert set(fake.hosts) == {"huggingface.co"}
    assert model.source == {"hf_config": CONFIG}
    assert list(model.header or ()) == ["all"]
    assert model.origin == f"org/name at {COMMIT}"


def test_tensors_are_never_read() -> None:
    """A header is asked for by its range, and a longer one by a second range alone."""
    many = {f"tensor_{index:05}": 1 for index in range(3000)}
    fake = FakeHub(make_repository(model__safetensors=make_safetensors(**many) + bytes(10**6)))

    model = fake.make().fetch(MODEL)

    ranges = [request.headers.get("range") for request in fake.requests]
    assert ranges[:3] == [None, None, "bytes=0-99999"]
    assert len(ranges) == 4
    assert len(model.header or ()) == 3000


def test_an_index_stands_for_many_files() -> None:
    """Of a sharded model the index is read, and no shard."""
    index = {"metadata": {"total_size": 2 * PARAMETERS}, "weight_map": {"a": "b"}}
    files = make_repository() | {"model.safetensors.index.json": json.dumps(index).encode()}
    fake = FakeHub(files)

    model = fake.make().fetch(MODEL)

    assert (model.index, model.header, len(fake.requests)) == (index, None, 3)


def test_the_quantisation_beside_a_config_counts() -> None:
    """ModelOpt writes a file of its own."""
    files = make_repository() | {"hf_quant_config.json": b'{"quantization": {"quant_algo": "FP8"}}'}

    model = FakeHub(files).make().fetch(MODEL)

    config: Any = model.source["hf_config"]
    assert config["quantization_config"] == {"quantization": {"quant_algo": "FP8"}}


def test_a_gguf_file_is_read_by_ranges() -> None:
    """The only one of a repository is its model; a projector beside it is not."""
    content = (FOLDER / "mixtral.gguf").read_bytes()
    fake = FakeHub({"m-Q4_K_M.gguf": content, "mmproj-m.gguf": b"GGUF"})

    model = fake.make().fetch(MODEL)

    assert model.source == {"gguf": read_model("mixtral").describe()}
    assert model.origin.endswith(f"{COMMIT}, m-Q4_K_M.gguf")
    assert fake.requests[1].headers["range"].startswith("bytes=0-")


def test_all_parts_of_a_split_file_are_read() -> None:
    """Any part names the file."""
    names = [f"split-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    fake = FakeHub({name: (FOLDER / name).read_bytes() for name in names})

    model = fake.make().fetch(HubReference(repository="org/name", file=names[1]))

    found: Any = model.source["gguf"]
    assert len(found["tensors"]) == 5
    assert model.file == names[0]


def test_several_files_are_a_question() -> None:
    """The refusal names them."""
    content = (FOLDER / "llama.gguf").read_bytes()
    fake = FakeHub({"a-Q4_0.gguf": content, "a-Q8_0.gguf": content})

    error = read_refusal(fake)

    assert "name one as file, such as a-Q4_0.gguf, a-Q8_0.gguf" in error.detail
    assert fake.make().fetch(HubReference(repository="org/name", file="a-Q8_0.gguf")).file


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"README.md": b"x"}, "neither a config.json nor a GGUF file"),
        (
            {
                "adapter_config.json": b'{"r": 8, "target_modules": ["v", "q"], '
                b'"base_model_name_or_path": "org/base", "peft_type": "LORA"}'
            },
            "adapter (rank 8; targets q, v) of org/base",
        ),
        (
            {"model_index.json": b'{"_class_name": "FluxPipeline", "vae": ["diffusers", "Auto"]}'},
            "FluxPipeline, which is not modelled: vae (Auto)",
        ),
        (make_repository(config__json=b"<html>"), "is not JSON"),
        (make_repository(config__json=b"[1]"), "no JSON object"),
        (make_repository(config__json=b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}"), "levels"),
        (make_repository(model__safetensors=b"\xff" * 8), "its header would have"),
        (make_repository(model__safetensors=b"\x40" + bytes(7) + b"{"), "ends within"),
        ({"a.gguf": b"GGUF\x63\0\0\0"}, "version 99"),
        ({"a.gguf": b"GG"}, "ends within its header"),
        ({"a-00001-of-00002.gguf": b"GGUF"}, "no GGUF file a-00002-of-00002.gguf"),
    ],
)
def test_what_is_no_model_is_said_in_words(files: dict[str, bytes], words: str) -> None:
    """Each answer says what is there."""
    error = read_refusal(FakeHub(files))

    assert isinstance(error, HubContentError)
    assert words in error.detail


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "RepoNotFound", "nobody without a token"),
        (401, "GatedRepo", "is gated"),
        (403, "GatedRepo", "is gated"),
        (403, "", "is gated"),
        (404, "RepoNotFound", "there is no org/name on the hub"),
        (404, "RevisionNotFound", "no such revision"),
    ],
)
def test_the_hubs_refusals_say_what_to_do(status: int, code: str, words: str) -> None:
    """Its status goes along, and the token does not."""
    answer = httpx.Response(status, headers={"x-error-code": code}, text=TOKEN)

    error = read_refusal(FakeHub(respond=lambda _request: answer), SECRET)

    assert isinstance(error, HubRefusedError)
    assert words in error.detail
    assert (error.status, error.extra["hub_status"]) == (422, status)


def test_a_hub_that_is_away_is_said_without_an_address() -> None:
    """Faults of a hub and of the way there are no faults of the question."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(TOKEN, request=request)

    for respond in (fail, lambda _request: httpx.Response(500, text=TOKEN)):
        error = read_refusal(FakeHub(respond=respond), SECRET)
        assert isinstance(error, HubUnavailableError)
        assert error.status == 503


def test_nothing_is_asked_unless_the_operator_allows_it() -> None:
    """A server without the setting refuses at once, and says which setting it is."""
    with pytest.raises(HubOffError, match="HEADROOM_HUB=true"):
        Hub(None).fetch(SECRET)


def test_the_token_goes_to_the_hubs_own_host_alone() -> None:
    """A redirect to the file store leaves it behind, and so does another port."""
    fake = FakeHub(respond=redirect("cdn-lfs.hf.co"))

    fake.make().fetch(SECRET)

    assert fake.hosts == ["huggingface.co"] * 3 + ["cdn-lfs.hf.co"]
    assert fake.tokens == [f"Bearer {TOKEN}"] * 3 + [None]


def test_a_token_does_not_come_back_with_a_second_redirect() -> None:
    """Who was elsewhere once is not believed again."""

    def respond(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith(".safetensors"):
            return None
        there = request.headers["host"] == "cdn.hf.co"
        if request.url.query:
            return None
        back = f"https://huggingface.co{request.url.path}?back=1"
        away = f"https://cdn.hf.co{request.url.path}"
        return httpx.Response(302, headers={"location": back if there else away})

    fake = FakeHub(respond=respond)

    fake.make().fetch(SECRET)

    assert fake.tokens[-3:] == [f"Bearer {TOKEN}", None, None]
    assert fake.hosts[-1] == "huggingface.co"


@pytest.mark.parametrize(
    ("host", "scheme", "words"),
    [
        ("evil.example", "https", "evil.example, which is not allowed"),
        ("huggingface.co.evil.example", "https", "which is not allowed"),
        ("nothf.co", "https", "which is not allowed"),
        ("cdn.hf.co", "http", "only https"),
        ("user:pass@cdn.hf.co", "https", "a user in the address"),
        ("169.254.169.254", "https", "which is not allowed"),
        ("[::1]", "https", "which is not allowed"),
    ],
)
def test_redirects_lead_to_allowed_hosts_only(host: str, scheme: str, words: str) -> None:
    """Nothing is sent to any other, whatever the hub says."""
    fake = FakeHub(respond=redirect(host, scheme=scheme))

    error = read_refusal(fake, SECRET)

    assert words in error.detail
    assert len(fake.requests) == 3


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_without_an_end_is_left(status: int) -> None:
    """Five are followed."""
    fake = FakeHub(
        respond=lambda request: httpx.Response(status, headers={"location": str(request.url.path)})
    )

    assert "redirects more than 5 times" in read_refusal(fake).detail
    assert len(fake.requests) == 6


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.1"),
        *("100.64.0.1", "224.0.0.1", "::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1"),
        *("64:ff9b::a00:1", "2002:a00:1::", "::", "ff02::1", "not an address"),
    ],
)
def test_addresses_inside_are_refused(address: str) -> None:
    """Loopback, private, link-local and what stands for them, in either version."""
    fake = FakeHub(addresses={"huggingface.co": (PUBLIC, address)})

    error = read_refusal(fake, SECRET)

    assert "not public" in error.detail
    assert fake.requests == []
    assert is_public(PUBLIC)
    assert is_public("2606:4700::1111")


def test_a_redirect_to_a_name_inside_is_refused() -> None:
    """An allowed name that has an address inside is looked up before anything is sent."""
    fake = FakeHub(respond=redirect("cdn.hf.co"), addresses={"cdn.hf.co": ("10.0.0.7",)})

    assert "not public" in read_refusal(fake).detail
    assert len(fake.requests) == 3


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A second look-up could say something else; name and certificate stay the host's."""
    fake = FakeHub()

    fake.make().fetch(MODEL)

    assert {request.url.host for request in fake.requests} == {PUBLIC}
    assert {request.headers["host"] for request in fake.requests} == {"huggingface.co"}
    names = {request.extensions["sni_hostname"] for request in fake.requests}
    assert names == {"huggingface.co"}


def test_an_operator_may_allow_a_mirror_inside() -> None:
    """Its address and plain HTTP are then the operator's word; other hosts stay refused."""
    policy = HubPolicy(endpoint="http://mirror.lan:8080/hf", hosts=(), private=True)
    inside = {"mirror.lan": ("10.0.0.7",)}
    fake = FakeHub(policy=policy, addresses=inside)

    fake.make().fetch(SECRET)

    assert fake.requests[0].url.path == "/hf/api/models/org/name/revision/main"
    assert fake.tokens == [f"Bearer {TOKEN}"] * 3
    away = FakeHub(policy=policy, addresses=inside, respond=redirect("cdn.hf.co"))
    assert "not allowed" in read_refusal(away).detail


def test_a_name_without_an_address_is_said() -> None:
    """It is no fault of the question."""
    fake = FakeHub(addresses={"huggingface.co": ()})

    assert isinstance(read_refusal(fake), HubUnavailableError)


def test_a_commit_is_read_once() -> None:
    """The same question again asks nobody; another revision asks for its commit alone."""
    fake = FakeHub()
    hub = fake.make()

    first, second = hub.fetch(MODEL), hub.fetch(MODEL)
    hub.fetch(HubReference(repository="org/name", revision="v1/beta"))

    assert first is second
    assert [request.url.raw_path for request in fake.requests[3:]] == [
        b"/api/models/org/name/revision/v1%2Fbeta"
    ]


def test_what_a_token_was_shown_is_nobody_elses() -> None:
    """A gated model is not answered from what another caller read; the token is not kept."""
    fake = FakeHub()
    hub = fake.make()
    hub.fetch(SECRET)
    fake.respond = lambda _request: httpx.Response(401)

    with pytest.raises(HubRefusedError):
        hub.fetch(MODEL)

    assert hub.fetch(SECRET).commit == COMMIT
    assert TOKEN not in repr(vars(hub))
    assert TOKEN not in repr(SECRET)


def test_bodies_without_an_end_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A config of more bytes than any has, and a hub that sends and sends."""
    monkeypatch.setattr(reading, "MAX_JSON_BYTES", 1000)
    big = FakeHub(make_repository(config__json=b'{"a": "' + b"x" * 2000 + b'"}'))

    assert "more than 1,000 bytes" in read_refusal(big).detail
    monkeypatch.setattr(reading, "MAX_TOTAL_BYTES", 500)
    assert "headers have more than 500 bytes" in read_refusal(big).detail


def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests of a model share one deadline."""
    monkeypatch.setattr(reading, "DEADLINE_S", -1.0)

    assert "takes longer" in read_refusal(FakeHub()).detail


def test_a_hub_that_ignores_ranges_is_read_no_further() -> None:
    """The first bytes are the header's; a later range of a whole file would be wrong bytes."""

    def respond(request: httpx.Request) -> httpx.Response | None:
        name = request.url.path.rpartition("/")[2]
        if "range" not in request.headers:
            return None
        return httpx.Response(200, content=fake.files[name])

    fake = FakeHub(respond=respond)

    assert list(fake.make().fetch(MODEL).header or ()) == ["all"]
    many = {f"tensor_{index:05}": 1 for index in range(3000)}
    fake.files = make_repository(model__safetensors=make_safetensors(**many))
    assert "does not honour Range" in read_refusal(fake).detail


def test_few_models_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told to come again, and holds no thread."""
    monkeypatch.setattr(hub_module, "MAX_FETCHES", 1)
    entered, leave = threading.Event(), threading.Event()

    def wait(_request: httpx.Request) -> None:
        entered.set()
        assert leave.wait(30)

    hub = FakeHub(respond=wait).make()
    other = threading.Thread(target=hub.fetch, args=(MODEL,))
    other.start()
    assert entered.wait(30)

    with pytest.raises(HubUnavailableError, match="ask again"):
        hub.fetch(MODEL)

    leave.set()
    other.join(30)
    assert hub.fetch(MODEL).commit == COMMIT
