"""The commands. Each only reads its options and calls the module that does the work."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from bench.bundle.cli_caches import app as caches_app
from bench.deploy.cli_deploy import deploy
from bench.errors import UsageError
from bench.explain.ablate.cli_ablate import ablate
from bench.explain.capacity.cli_capacity import capacity
from bench.explain.compare.cli_compare import compare
from bench.explain.fleet.cli_plan import plan
from bench.explain.frontier.cli_frontier import frontier
from bench.explain.graphs.cli_graphs import graphs
from bench.explain.preflight.cli_preflight import preflight
from bench.explain.steps.cli_steps import steps
from bench.images.cli_build import build
from bench.images.cli_pin import pin
from bench.release.cli_release import attach, release_notes
from bench.report.intake.cli_verify import verify
from bench.report.trust.cli_keys import app as keys_app
from bench.report.trust.means import VARIABLE, Means
from bench.serve.cli_serve import serve_reports
from quantize.cli import app as quantize_app
from recipes.command import shell_command
from recipes.load import load_recipe, targets

app: Final = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    help="How many voice streams does this serving recipe hold under its latency limit?\n\n"
    "A **recipe** pins everything that decides the number; `repro` runs it and signs the report; `verify` checks "
    "anybody's report without an engine.\n\n"
    "Exit codes: 0 every comparable claim held; 1 the work could not be done; 2 wrong usage; 3 a claim did not hold; "
    "4 the measurement is invalid; 130 interrupted.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"streamproof {version('streamproof')}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


Target = Annotated[str, typer.Argument(help="A target (see `recipes`), or the path of a recipe of your own (.toml).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one value of the recipe, e.g. `--set load.turn_gap.mean_s=8`. May be given several times; "
        "every override is named in the report.",
    ),
]

Sign = Annotated[
    Means,
    typer.Option(
        "--sign",
        envvar=VARIABLE,
        help="With your `key`, which is made on first use; or `keyless` with Sigstore (extra `release`), in the name "
        "of an identity whose token is in `SIGSTORE_ID_TOKEN` or that a job of GitHub Actions has. That publishes the "
        "identity for ever, so a token alone never does it.",
    ),
]


def parse_overrides(assignments: list[str] | None) -> dict[str, str]:
    """`KEY=VALUE` strings as a mapping.

    Raises:
        UsageError: one of them has no "=".
    """
    overrides = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"--set {assignment}: this is no KEY=VALUE.", remedy="E.g. --set load.turn_gap.mean_s=8")
        overrides[key.strip()] = value.strip()
    return overrides


@app.command()
def recipes(
    *, as_json: Annotated[bool, typer.Option("--json", help="Names and titles as JSON, for scripts.")] = False
) -> None:
    """List the targets: what each one is, on which hardware, and how many published figures it can reproduce."""
    loaded = [load_recipe(name) for name in targets()]
    if as_json:
        typer.echo(json.dumps([{"target": r.target, "title": r.title} for r in loaded]))
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("target", no_wrap=True)
    for heading in ("hardware", "weights", "claims", "what it is"):
        table.add_column(heading)
    for recipe in loaded:
        about = sum(recipe.target in claim.targets for claim in recipe.claims)
        weights = recipe.checkpoint.precision + ("" if recipe.checkpoint.real else ", not real")
        table.add_row(f"[bold]{recipe.target}[/]", recipe.hardware.label, weights, str(about), recipe.title)
    Console().print(table)


@app.command()
def show(
    target: Target,
    overrides: Overrides = None,
    *,
    command: Annotated[bool, typer.Option("--command", help="Only the `vllm serve` command line.")] = False,
) -> None:
    """Print a target's resolved recipe: every value with its source, its fingerprint, and the `vllm serve` line."""
    from bench.plan import fingerprints_for_show  # noqa: PLC0415  reads the checkpoint's files: only where needed
    from bench.report.folder_evidence import recipe_toml  # noqa: PLC0415  as above

    recipe = load_recipe(target, parse_overrides(overrides))
    line = shlex.join(shell_command(recipe))
    if command:
        typer.echo(line)
        return
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(Syntax(recipe_toml(recipe), "toml", background_color="default", word_wrap=True))
    else:
        typer.echo(recipe_toml(recipe))
    for shown in fingerprints_for_show(recipe):
        without = f", without {shown.missing}" if shown.missing else ""
        console.print(
            f"[bold]fingerprint[/]   {shown.fingerprint}\n              with --engine {shown.engine}{without}"
        )
    times = f" of each of {recipe.replicas} replicas" if recipe.replicas > 1 else ""
    console.print(f"[bold]command line[/]{times}")
    typer.echo(line)


@app.command()
def workload(
    target: Target,
    overrides: Overrides = None,
    *,
    stream: Annotated[int, typer.Option(help="Which caller.", min=0)] = 0,
) -> None:
    """Print one conversation of a target's workload, as people would read it."""
    from bench.plan import example_workload  # noqa: PLC0415  reads the checkpoint's files: only where it is needed
    from bench.workload.show import show as render  # noqa: PLC0415

    Console().print(render(example_workload(load_recipe(target, parse_overrides(overrides))), stream=stream))


@app.command()
def repro(
    target: Target,
    overrides: Overrides = None,
    *,
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Measure a server that is already running (OpenAI-compatible) instead of starting one. What it does "
            "not tell is unknown in the report, and claims can then be 'consistent with', never 'reproduced'."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="With --base-url: the model to ask for.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="docker|process",
            help="Run the engine in a container, from the target's pinned image (built when it is not there), or as a "
            "process of this host, from the hash-locked packages. By default docker for the GPU targets, process for "
            "the others and in an installed bundle.",
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="REF",
            help="With docker: another image of ours instead of the target's own: the id or name of one that is here, "
            "or REPOSITORY@sha256:... to pull. The report's title says so.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Send the load from the hosts of an existing Ray cluster (`auto` or HOST:PORT; extra `ray`).",
        ),
    ] = None,
    unaudited: Annotated[
        bool,
        typer.Option(
            help="Serve a quantized checkpoint whose audit failed or is missing, or that nobody signed. The report's "
            "title says so."
        ),
    ] = False,
    reports: Annotated[Path, typer.Option(help="Folder that the report's folder is made in.")] = Path("reports"),
    sign: Sign = Means.KEY,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Progress and outcome as JSON lines, for scripts.")] = False,
) -> None:
    """Run a target end to end and leave a signed report.

    Starts the recipe's engine, climbs its ladder of streams, judges the published claims and signs the report. The
    engine's image is built, or its environment installed, on first use. Ctrl-C ends the run at once, keeps every
    recorded request and leaves a partial report that says so.
    """
    from bench.repro import Wishes, reproduce  # noqa: PLC0415  the heavy part: loaded for this command only

    chosen = parse_overrides(overrides)
    if unaudited:
        chosen["checkpoint.unaudited"] = "true"
    recipe = load_recipe(target, chosen)
    wishes = Wishes(engine=engine, image=image, base_url=base_url, model=model)
    code = reproduce(recipe, reports=reports, wishes=wishes, ray=ray, quiet=quiet, as_json=as_json, means=sign)
    raise typer.Exit(code)


@app.command()
def finish(
    folder: Annotated[Path, typer.Argument(help="The folder that the run left.", exists=True, file_okay=False)],
    *,
    sign: Sign = Means.KEY,
) -> None:
    """Complete the report of a run that was cut off: a killed client, a full disk.

    The records that were written are kept; the report is partial and says why. A report that is complete is signed
    again.
    """
    from bench.repro import finish_folder  # noqa: PLC0415

    raise typer.Exit(finish_folder(folder, sign))


app.command()(verify)


@app.command()
def doctor(
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="LOG...", help='Logs, plain or gzip; "-" is standard input.')
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The diagnosis as JSON, for scripts.")] = False,
    catalogue: Annotated[bool, typer.Option("--catalogue", help="List all that the doctor knows.")] = False,
) -> None:
    """Say what a vLLM log shows: the stage and the allocation that failed, the cause, the fix, and what it is not.

    Reads start and serving logs as they come: from docker, compose, kubectl or journald, cut off, of several ranks, of
    any size. Of an engine that runs it names what is silently worse than was asked for.

    Exit codes: 0 healthy; 3 a known failure or downgrade; 4 it failed, or was not ready when the log ends, and no known
    cause fits; 1 no log of vLLM, or unreadable. Of several logs 4 counts before 3 before 1.
    """
    from bench.explain.doctor import command  # noqa: PLC0415

    raise typer.Exit(command.show_catalogue() if catalogue else command.doctor(logs or [], as_json=as_json))


@app.command()
def bundle(
    target: Target,
    overrides: Overrides = None,
    *,
    out: Annotated[Path | None, typer.Option(help="Folder to make; `dist/bundle-TARGET` by default.")] = None,
    part_size: Annotated[str, typer.Option(help="Largest file of the bundle, e.g. 60MB or 2GiB.")] = "2GB",
    python: Annotated[str, typer.Option(help="Python of the host that it is for.")] = "3.12",
    host_provides: Annotated[
        str, typer.Option(help="What that host has already: a preset of `bench/bundle/hosts`, or a file that lists it.")
    ] = "bare",
    keep: Annotated[
        list[str] | None, typer.Option(help="A rule of `bench/bundle/left_out.toml` that shall not apply.")
    ] = None,
    with_checkpoint: Annotated[bool, typer.Option(help="Carry the weights too.")] = False,
    with_caches: Annotated[
        bool, typer.Option("--with-caches", help="Carry this recipe's newest compiled code (`caches` lists it).")
    ] = False,
    caches: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Carry the compiled code of this folder instead.")
    ] = None,
    image: Annotated[
        bool,
        typer.Option("--image", help="For a host with Docker: carry the target's image instead of the packages."),
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(metavar="REF@DIGEST", help="With --image: build it on this base instead of the pinned one."),
    ] = None,
) -> None:
    """Make everything that a host without network needs to run a target, with Docker (`--image`) or without.

    The folder holds signed, hashed parts and `install.sh`, which needs only sh, tar, xz and python3, and for an image
    also Docker.
    """
    from bench.bundle.command import bundle as make  # noqa: PLC0415

    chosen = parse_overrides(overrides)
    code = make(
        load_recipe(target, chosen),
        out=out,
        part_size=part_size,
        python=python,
        host_provides=host_provides,
        keep=keep or (),
        with_checkpoint=with_checkpoint,
        with_caches=with_caches,
        caches=caches,
        image=image,
        base=base,
        overrides=chosen,
    )
    raise typer.Exit(code)


app.command()(build)
app.command()(deploy)
app.command()(pin)
app.add_typer(caches_app, name="caches")
app.add_typer(keys_app, name="keys")
app.command()(preflight)
app.command()(graphs)
app.command()(steps)
app.command()(compare)
app.command()(ablate)
app.command()(plan)
app.command()(serve_reports)
app.command()(release_notes)
app.command()(attach)
app.command()(capacity)
app.command()(frontier)
app.add_typer(quantize_app, name="quantize")
