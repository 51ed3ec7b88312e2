"""What an engine in a container has compiled: its caches are in a volume, so a process inside looks into them.

What comes back is not believed: whoever can write the volume, or the image, could have put another Python there. It is
cut, awaited so long and no longer, and has to be what `bench.engine.compiled.Look` allows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from bench.engine import cache_walk
from bench.engine.compiled import NOT_NAMED, WITHIN_S, Look, Since, could_not, question
from bench.engine.docker_errors import DOCKER_ERRORS

if TYPE_CHECKING:
    import docker

ANSWER_BYTES: Final = 1 << 20
"""Of an answer: more than twice what the longest list takes."""

_ANSWER_WITHIN_S: Final = WITHIN_S + 5.0
"""The process ends itself before; Docker has the rest to start it."""


@dataclass(frozen=True)
class FoldersInside:
    """See `bench.engine.compiled.CompiledCode`: folders of a container that runs.

    Attributes:
        client: of the Docker Engine.
        container: id of the one in which they are looked into.
        volume: that they are in.
        folders: by whose they are; None where the engine may have others, that are not its own.
    """

    client: docker.DockerClient = field(compare=False)
    container: str = field(compare=False)
    volume: str
    folders: Mapping[str, Path] | None

    def since(self, moment: Since) -> Look:
        """See `CompiledCode`."""
        if self.folders is None:
            return could_not(NOT_NAMED)
        program = Path(cache_walk.__file__).read_text(encoding="utf-8")
        # -I and -S: nothing of the engine's packages, and nothing that they add to every start of Python.
        command = ["python3", "-I", "-S", "-c", program, json.dumps(question(self.folders, moment))]
        try:
            answer = _said(self.client, self.container, command)
        except TimeoutError:
            return could_not(f"the engine's container did not answer within {_ANSWER_WITHIN_S:g} s")
        except DOCKER_ERRORS as error:
            return could_not(f"Docker cannot look into the engine's container: {error}")
        try:
            return Look.model_validate_json(answer)
        except ValidationError:
            return could_not(f"what the engine's container answered is no list of files: {answer[:100]!r}")


def _said(client: docker.DockerClient, container: str, command: Sequence[str]) -> bytes:
    """What a command inside a container writes to its standard output; of too much, its beginning.

    Raises:
        TimeoutError: it takes too long.
        docker.errors.DockerException, requests.exceptions.RequestException: the Docker Engine refuses.
    """
    process = client.api.exec_create(container, list(command))["Id"]
    answer = client.api.exec_start(process, stream=True, demux=True)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        with suppress(OSError):  # it has just ended
            answer.close()

    # The SDK waits for the next piece as long as it takes; closed by another thread, it ends.
    watchdog = threading.Timer(_ANSWER_WITHIN_S, give_up)
    watchdog.start()
    said = b""
    try:
        for output, _ in answer:
            said += output or b""
            if len(said) > ANSWER_BYTES:
                break
    finally:
        watchdog.cancel()
        # After the SDK's own `close` the connection is open until garbage is collected.
        cast("Any", answer)._response.close()  # noqa: SLF001  there is no public way to it
    if late.is_set():
        raise TimeoutError
    return said
