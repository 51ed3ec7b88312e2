"""The command `quantize`. It reads its options and calls what does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from quantize.audit.cli import WIDTH_OF_A_PIPE, audit
from quantize.options import DeviceChoice, Options, StageName
from quantize.quality.cli import dequantize, quality
from quantize.target import DEFAULT, load_target

CHECKPOINTS: Final = Path(__file__).resolve().parents[1] / "checkpoints"
"""Where recipes look for quantized checkpoints."""
_RUN: Final = "run"


class _WithDefault(TyperGroup):
    """`quantize tiny` is `quantize run tiny`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  typer hides its own context's type
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app: Final = typer.Typer(
    cls=_WithDefault,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Make the NVFP4 checkpoint of a target (`quantize [TARGET]`), or audit anybody's (`quantize audit DIR`).",
)


@app.command(_RUN)
def run(
    target: Annotated[
        str, typer.Argument(help="`qwen3.5-35b-a3b`, `tiny` (the toy, on a CPU), or the path of a target (.toml).")
    ] = DEFAULT,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override one value of the target, e.g. `--set kv_cache=none`."
        ),
    ] = None,
    *,
    source: Annotated[
        Path | None,
        typer.Option(help="Folder of the BF16 checkpoint, instead of the target's source; no network then."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder that the checkpoint shall be; `checkpoints/NAME` by default.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder for the stages and their manifests; `.work-NAME` beside OUT by default.")
    ] = None,
    device: Annotated[DeviceChoice, typer.Option(help="What calibrates and exports.")] = "auto",
    python: Annotated[
        Path | None,
        typer.Option(
            help="Interpreter for ModelOpt, with its PYTHONPATH, instead of the hash-locked environment: for hosts "
            "without network. The manifests then say so and list its packages."
        ),
    ] = None,
    until: Annotated[StageName, typer.Option(help="The last stage to do.")] = "sign",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Quantize a checkpoint: fetch, calibrate, export, carry, audit, sign.

    Says beforehand what it needs, and refuses what does not fit before anything is downloaded. Stages that are done
    are not done again; a run that was cut off goes on where it stopped, and the result is the same to the byte.

    Exit codes: 0 audited and signed; 1 it could not be done; 2 wrong usage; 3 the audit failed, and the checkpoint is
    left unsigned.
    """
    from bench.cli import parse_overrides  # noqa: PLC0415  that module imports this one
    from quantize.audit.show import shown  # noqa: PLC0415  the heavy part: loaded for this command only
    from quantize.display import display_for  # noqa: PLC0415  as above
    from quantize.pipeline import quantize  # noqa: PLC0415  as above

    chosen = load_target(target, parse_overrides(overrides))
    place = (out or CHECKPOINTS / chosen.name).absolute()
    options = Options(
        source=source,
        out=place,
        work=(work or place.with_name(f".work-{place.name}")).absolute(),
        device=device,
        python=python,
        until=until,
    )
    display = display_for(quiet=quiet)
    try:
        outcome = quantize(chosen, options, display)
    finally:
        display.close()
    if outcome is None:
        raise typer.Exit
    if not quiet:
        console = Console(highlight=False)
        console.print(shown(outcome), width=None if console.is_terminal else WIDTH_OF_A_PIPE)
        if until == "sign":
            state = "audited and signed" if outcome.passed else "NOT signed, because its audit failed"
            console.print(f"[bold]checkpoint[/]  {place}  ({state})", soft_wrap=True)
    raise typer.Exit(outcome.exit_code)


app.command("audit")(audit)
app.command("quality")(quality)
app.command("dequantize")(dequantize)
