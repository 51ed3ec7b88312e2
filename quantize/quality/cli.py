"""The commands `quality` and `dequantize`; each reads its options and calls the module that does the work."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer


def quality(
    target: Annotated[
        str, typer.Argument(help="Whose engine and workload: a recipe (see `recipes`), or the path of one (.toml).")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override one value of the recipe; may be given several times."
        ),
    ] = None,
    *,
    quantized: Annotated[
        str | None, typer.Option(metavar="DIR", help="The quantized checkpoint; the recipe's own by default.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Its BF16 source. Without one only the serving run is done: no loss is measured."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="A server that already serves the quantized checkpoint, instead of starting one.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="With --base-url and --quantized: that server's log, for what it says of loading.", exists=True
        ),
    ] = None,
    reference_url: Annotated[str | None, typer.Option(help="The same for the reference.")] = None,
    model: Annotated[str | None, typer.Option(help="With an address: the model to ask for.")] = None,
    by: Annotated[
        Literal["vllm", "transformers"],
        typer.Option(help="`vllm`: the recipe's engine. `transformers`: no engine, for models that fit into memory."),
    ] = "vllm",
    dequantized: Annotated[
        bool,
        typer.Option(
            "--dequantize",
            help="Measure the loss of the weights alone, on any hardware: they are dequantized to BF16 first.",
        ),
    ] = False,
    texts: Annotated[int, typer.Option(help="Held-out calls; 10 or more give intervals.", min=2)] = 32,
    seed: Annotated[int, typer.Option(help="Which calls.")] = 1,
    top_k: Annotated[int, typer.Option(help="Most likely tokens known of each position.", min=1)] = 20,
    only: Annotated[
        Literal["quantized", "reference"] | None,
        typer.Option(help="Measure this side now; a later call with the same --out takes it from there."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for everything; a new one under reports/quality by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Say what quantization cost, and whether the checkpoint is served as it should be (gate 8 of the audit).

    Two models on the same held-out calls of the recipe's workload, one engine after the other: perplexity, divergence
    and agreement token by token, with intervals. The quantized one is started with its weights tracked and its loaders
    telling what they load; its replies must have exact token counts and be repeatable, and its drafts be accepted as
    often as the reference's.

    Exit codes: 0 nothing failed; 1 it could not be done; 2 wrong usage; 3 a check failed; 130 interrupted.
    """
    from rich.console import Console  # noqa: PLC0415  only for this command
    from rich.markdown import Markdown  # noqa: PLC0415  as above

    from bench.cli import parse_overrides  # noqa: PLC0415  that module imports this one
    from bench.display import display_for  # noqa: PLC0415  the heavy part: loaded for this command only
    from bench.errors import Exit  # noqa: PLC0415  as above
    from quantize.quality.run import Options, assess  # noqa: PLC0415  as above
    from quantize.quality.show import markdown  # noqa: PLC0415  as above
    from recipes.load import load_recipe  # noqa: PLC0415  as above

    recipe = load_recipe(target, parse_overrides(overrides))
    folder = out or Path("reports") / "quality" / f"{recipe.target}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    display = display_for(quiet=quiet, as_json=False)
    try:
        outcome = assess(
            Options(
                recipe=recipe,
                quantized=quantized,
                reference=reference,
                base_url=base_url,
                log=log,
                reference_url=reference_url,
                model=model,
                method=by,
                dequantized=dequantized,
                texts=texts,
                seed=seed,
                top_k=top_k,
                only=only,
                out=folder,
            ),
            display,
        )
    finally:
        display.close()
    if not quiet:
        if outcome.quality or outcome.served:
            text = markdown(outcome.quality, outcome.served)
            console = Console()
            console.print(Markdown(text)) if console.is_terminal else typer.echo(text)
        typer.echo(f"In {folder}")
    if outcome.served is not None and outcome.served.outcome == "failed":
        raise typer.Exit(Exit.CLAIM_FAILED)


def dequantize(
    folder: Annotated[Path, typer.Argument(help="An NVFP4 checkpoint of ModelOpt's layout.", exists=True)],
    out: Annotated[Path, typer.Argument(help="Folder to make.")],
) -> None:
    """Write an NVFP4 checkpoint's weights in BF16, so that any hardware serves them.

    Activations and KV cache are not quantized then: what is measured with it is the loss of the weights alone.
    """
    from bench.display import display_for  # noqa: PLC0415  loaded for this command only
    from quantize.quality.dequantize import dequantize as write  # noqa: PLC0415  as above
    from quantize.quality.dequantize import tenths  # noqa: PLC0415  as above

    display = display_for(quiet=False, as_json=False)
    write(folder, out, on_bytes=tenths(display.note))
    display.note(f"In {out}")
