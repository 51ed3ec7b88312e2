"""The Sigstore instance that vouches for identities: the public one, or a company's own."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError, UsageError

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig

ENVIRONMENT: Final = "STREAMPROOF_SIGSTORE_INSTANCE"
"""Environment variable that names a file as `--instance` does."""


def not_installed() -> StreamproofError:
    """Says that the extra with sigstore's library is missing, and how to get it."""
    return StreamproofError(
        "a keyless signature needs the package sigstore, which is not installed here",
        remedy="Install the extra: uv sync --extra release.",
    )


def instance_file() -> Path | None:
    """The instance that the environment names; None for the public one."""
    named = os.environ.get(ENVIRONMENT)
    return Path(named) if named else None


def read(path: Path | None, *, offline: bool) -> ClientTrustConfig:
    """What a client must know of an instance: its addresses and its roots of trust.

    Args:
        path: a ClientTrustConfig of Sigstore in JSON, as `sigstore --trust-config` takes it; None for the public one.
        offline: of the public one, use the roots that came with the package instead of asking for newer ones.

    Raises:
        StreamproofError: the extra is not installed, or the public one cannot be reached.
        UsageError: the file cannot be read.
    """
    try:
        from sigstore.errors import Error  # noqa: PLC0415  an extra: only keyless signatures need it
        from sigstore.models import ClientTrustConfig  # noqa: PLC0415  as above
    except ImportError as error:
        raise not_installed() from error
    if path is None:
        # It warns that it asks nobody for newer roots: that is what offline means.
        logging.getLogger("sigstore._internal.tuf").setLevel(logging.ERROR)
        try:
            return ClientTrustConfig.production(offline=offline)
        except (Error, OSError) as error:
            raise StreamproofError(
                f"the public Sigstore instance's roots of trust are not to be had: {error}",
                remedy="They are kept in the user's data and cache folders; to sign, the instance must be reached.",
            ) from error
    try:
        return ClientTrustConfig.from_json(path.read_text())
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", remedy="Name a ClientTrustConfig of Sigstore."
        ) from error
    except (ValueError, Error) as error:
        raise UsageError(
            f"{path} is no ClientTrustConfig of Sigstore: {str(error).splitlines()[0]}",
            remedy="It is the file that `sigstore --trust-config` takes.",
        ) from error
