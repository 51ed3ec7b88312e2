"""Somebody else's server: measured, not started. What it does not say of itself stays unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bench.engine.discovery import choose_model, served_models, server_version
from bench.engine.metrics import MetricsPage
from bench.errors import UsageError
from bench.observe.observations import EngineStarted
from bench.servers import Server

if TYPE_CHECKING:
    from types import TracebackType

    from bench.engine.base import Clock
    from bench.engine.compiled import Look, Since
    from bench.observe.observations import EngineEvent, GraphTable

_PORTS: Final = {"http": 80, "https": 443}


def server_address(text: str) -> str:
    """Scheme, host and port of what the user typed; a path `/v1` and trailing slashes are dropped.

    Raises:
        UsageError: it is no such address.
    """
    try:
        url = urlsplit(text.strip())
        port = url.port or _PORTS.get(url.scheme)
    except ValueError as error:
        raise UsageError(f'"{text}" is no address of a server: {error}', remedy=_EXAMPLE) from None
    if url.scheme not in _PORTS or not url.hostname or url.path.rstrip("/") not in ("", "/v1") or url.query:
        raise UsageError(f'"{text}" is no address of a server', remedy=_EXAMPLE)
    if url.username or url.password:
        raise UsageError("the server's address carries a password", remedy="Leave it out; pass an API key instead.")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{url.scheme}://{host}:{port}"


_EXAMPLE: Final = "Give scheme, host and port, for example http://127.0.0.1:8000."


class ExternalEngine:
    """A server that is already there.

    Args:
        address: scheme, host and port, as the user typed it.
        model: the name that it serves under; None takes the only one there is.
        api_key: bearer token, where the server wants one.
        run: index of the engine start.
        clock: the run's clock.
    """

    def __init__(self, address: str, *, model: str | None, api_key: str | None, run: int, clock: Clock) -> None:
        self._base_url = server_address(address)
        self._model = model
        self._api_key = api_key
        self._run = run
        self._clock = clock

    def __enter__(self) -> RunningExternal:
        """See `bench.engine.base.Engine`.

        Raises:
            StreamproofError: nothing answers there.
            UsageError: it is no OpenAI-compatible server, wants another key, or does not serve that model.
        """
        models = served_models(self._base_url, api_key=self._api_key)
        model = choose_model(models, self._model, self._base_url)
        page = MetricsPage(Server(self._base_url, self._api_key)).read()
        cache = page.cache_config() if page else None
        started = EngineStarted(
            t=self._clock(),
            run=self._run,
            kind_of_engine="external",
            ready_s=None,
            stages=(),
            version=server_version(self._base_url, api_key=self._api_key),
            model=model.name,
            max_model_len=model.max_model_len,
            block_size=cache.block_size if cache else None,
            prefix_caching=cache.prefix_caching if cache else None,
            mamba_cache_mode=cache.mamba_cache_mode if cache else None,
            argv=None,
            packages_sha256=None,
            cold=None,
        )
        return RunningExternal(self._base_url, self._api_key, started)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Nothing was started, so there is nothing to stop."""


class RunningExternal:
    """See `bench.engine.base.RunningEngine`."""

    def __init__(self, base_url: str, api_key: str | None, started: EngineStarted) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.started = started

    @property
    def servers(self) -> tuple[Server, ...]:
        """Where it answers."""
        return (Server(self.base_url, self.api_key),)

    @property
    def model(self) -> str:
        """The name that requests must carry."""
        return self.started.model

    def alive(self) -> bool:
        """Always: whether it still answers is seen by the requests, and only by them."""
        return True

    def events(self) -> list[EngineEvent]:
        """None: its log is not ours to read."""
        return []

    def graph_tables(self) -> list[GraphTable]:
        """None, as above."""
        return []

    def compiled_since(self, _moment: Since) -> list[Look]:
        """None: its caches are not ours to look into."""
        return []
