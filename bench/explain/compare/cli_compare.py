"""`just compare`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    reports: Annotated[
        list[Path] | None, typer.Argument(metavar="BASE OTHER [MORE...]", help="Folders of reports, the base first.")
    ] = None,
    *,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC:pQQ:+N%",
            help="For releases: how much slower a percentile may be, e.g. `--gate e2e:p95:+5%` (also ttft, tpot). May "
            "be given several times; judged at every point that both reports have.",
        ),
    ] = None,
    key: Annotated[
        list[Path] | None, typer.Option(help="Public key (PEM) of a signer you trust, as for `verify`.")
    ] = None,
    unverified: Annotated[
        bool,
        typer.Option(
            "--unverified",
            help="Take reports that cannot be verified too; the outcome names them. They are read with the same care, "
            "and refused where no measurement could have left them.",
        ),
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway",
            help="Compare reports whose workload, turn gap or reality (dummy weights, synthetic acceptance, CPU) "
            "differs; the outcome names what was waived.",
        ),
    ] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write it as one HTML page.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for release notes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON, for scripts.")] = False,
) -> None:
    """Compare reports: what differs, what came of it at each point, and whether a release may go out.

    Every report is verified first. Differences come with intervals: of several engine starts on each side they say how
    sure a change is; of one start each they are about these two starts only. A published change between two targets
    (NVFP4 over FP8) is judged when its two reports are compared.

    Exit codes: 0 no regression; 3 a regression, or a published change that does not hold, for certain; 4 undecided, or
    not comparable; 1 a report is not verified; 2 wrong usage.
    """
    from bench.explain.compare.command import compare_and_show  # noqa: PLC0415  the heavy part

    code = compare_and_show(
        reports or [],
        gates=gate or (),
        keys=key or (),
        unverified=unverified,
        anyway=anyway,
        html=html,
        markdown=markdown,
        as_json=as_json,
    )
    raise typer.Exit(code)
