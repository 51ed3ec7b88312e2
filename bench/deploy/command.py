"""`just deploy`: from the words of the command line to files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.deploy import skypilot, slurm
from bench.deploy.asked import Asked
from bench.deploy.kubernetes import Cluster, manifests
from bench.errors import Exit, StreamproofError, UsageError
from recipes.load import load_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMS: Final = ("kubernetes", "slurm", "skypilot")

_HAND_WORK: Final = "reports.yaml"
"""Applied by hand, after the run: not in the stream that is applied at once."""


def deploy(target: str, overrides: Mapping[str, str], *, form: str, cluster: Cluster, out: Path | None) -> Exit:
    """Renders a target's files, to standard output or into a folder.

    Args:
        target: name of a recipe, or path of a file.
        overrides: of the recipe.
        form: one of `FORMS`.
        cluster: what the command line says of it.
        out: folder to write them into; None writes them to standard output.

    Raises:
        UsageError: no such form, a target that no cluster needs, or options that do not fit.
        StreamproofError: the folder cannot be written.
    """
    if form not in FORMS:
        raise UsageError(f"--as {form}: there is no such form.", remedy=f"It is one of: {', '.join(FORMS)}.")
    recipe = load_recipe(target, overrides)
    if recipe.hardware.kind != "gpu":
        raise UsageError(
            f"{recipe.target} runs on the CPU of any host; it is no target for a cluster of GPUs.",
            remedy=f"Run it where you are: just repro {recipe.target}",
        )
    files = _files(Asked(recipe=recipe, target=target, overrides=overrides), form, cluster)
    if out is None:
        sys.stdout.write("".join(text for name, text in files.items() if name != _HAND_WORK))
    else:
        _write(files, out)
    return Exit.OK


def _files(asked: Asked, form: str, cluster: Cluster) -> dict[str, str]:
    """By name.

    Raises:
        UsageError: an option means nothing for this form.
    """
    given = {
        "--image": cluster.image is not None and form == "slurm",
        "--client-image": cluster.client is not None and (form != "kubernetes" or cluster.engine_only),
        "--gpu-label": cluster.gpu_label is not None and form != "kubernetes",
        "--engine-only": cluster.engine_only and form != "kubernetes",
    }
    if meaningless := [option for option, is_so in given.items() if is_so]:
        where = "with --engine-only" if form == "kubernetes" else f"as {form}"
        raise UsageError(f"{meaningless[0]} means nothing {where}.", remedy="Leave it out.")
    if form == "kubernetes":
        return manifests(asked, cluster)
    if form == "slurm":
        return {f"{asked.recipe.target}.sbatch": slurm.script(asked)}
    return {f"{asked.recipe.target}.sky.yaml": skypilot.task(asked, cluster.image)}


def _write(files: Mapping[str, str], out: Path) -> None:
    """Into a folder, which is made; files of the same names are replaced, since a recipe gives the same again.

    Raises:
        StreamproofError: it cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="ascii")
            sys.stderr.write(f"{out / name}\n")
    except OSError as error:
        raise StreamproofError(
            f"{error.filename or out} cannot be written: {error.strerror}", remedy="Name another folder with --out."
        ) from error
