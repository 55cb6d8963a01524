"""A hub leads nowhere else: names, addresses, redirects, tokens, bytes and time."""

import threading

import httpx
import pytest

from service.base.hub_errors import (
    HubContentError,
    HubOffError,
    HubRefusedError,
    HubUnavailableError,
)
from service.runtime.settings import Settings
from service.usecases.hub import hub as hub_module
from service.usecases.hub import reading
from service.usecases.hub.addresses import HubPolicy, is_public, resolve_host
from service.usecases.hub.hub import Hub, make_hub
from tests.unit.usecases.hub.fake_hub import (
    COMMIT,
    MODEL,
    PUBLIC,
    SECRET,
    TOKEN,
    FakeHub,
    make_repository,
    make_safetensors,
    read_refusal,
    redirect,
)


def test_a_hub_that_is_away_is_said_without_an_address() -> None:
    """Faults of a hub and of the way there are no faults of the question."""

    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(TOKEN, request=request)

    for respond in (fail, lambda _request: httpx.Response(500, text=TOKEN)):
        error = read_refusal(FakeHub(respond=respond), SECRET)
        assert isinstance(error, HubUnavailableError)
        assert error.status == 503


@pytest.mark.parametrize("host", ["a..hf.co", "a" * 64 + ".hf.co"])
def test_a_name_that_no_host_can_have_has_no_address(host: str) -> None:
    """A redirect to one is a fault of the hub; the system's resolver raises UnicodeError."""
    with pytest.raises(HubUnavailableError, match="has no address"):
        HubPolicy().choose_address(httpx.URL(f"https://{host}/x"), resolve_host)


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
    """One more is told to come again and holds no thread; what is kept needs no reading."""
    monkeypatch.setattr(hub_module, "MAX_FETCHES", 1)
    entered, leave = threading.Event(), threading.Event()

    def wait(_request: httpx.Request) -> None:
        entered.set()
        assert leave.wait(30)

    fake = FakeHub()
    hub = fake.make()
    kept = hub.fetch(MODEL)
    fake.respond = wait
    other = threading.Thread(target=hub.fetch, args=(SECRET,))
    other.start()
    assert entered.wait(30)

    with pytest.raises(HubUnavailableError, match="ask again"):
        hub.fetch(SECRET)
    assert hub.fetch(MODEL) is kept

    leave.set()
    other.join(30)
    assert hub.fetch(SECRET).commit == COMMIT


def test_the_operators_word_is_the_settings() -> None:
    """Off without it, and on to the hosts that it lists."""
    allowed = make_hub(Settings(hub=True, hub_endpoint="http://127.0.0.1:9", hub_hosts=()))

    with pytest.raises(HubOffError):
        make_hub(Settings()).fetch(MODEL)
    with pytest.raises(HubContentError, match="only https"):
        allowed.fetch(MODEL)
