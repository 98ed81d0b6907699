"""`llm-marl report` and `table`: results as one HTML file, as text, Markdown or LaTeX."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import file_to_write, named_arguments


def _add_report(parser: ArgumentParser) -> None:
    parser.add_argument("folder", help="folder with summary.json, logs, transcripts or an audit")
    parser.add_argument(
        "--output", type=file_to_write, help="the file (default report.html in the folder)"
    )
    parser.add_argument(
        "--against",
        metavar="FOLDER",
        help="another evaluation to show beside this one; both go by their folders' names",
    )
    parser.add_argument(
        "--cross-play", metavar="FILE", help="cross_play.json, where it is not in the folder"
    )
    parser.add_argument(
        "--credit-audit",
        metavar="FOLDER",
        help="what llm-marl credit-audit wrote, where it is not the folder itself",
    )
    parser.add_argument(
        "--episodes", type=int, default=12, help="how many episodes to show (default 12)"
    )


def _report(options: Namespace) -> None:
    from llm_marl_envs.report import write_report

    path = write_report(
        options.folder,
        options.output,
        against=options.against,
        cross_play=options.cross_play,
        credit_audit=options.credit_audit,
        most_episodes=options.episodes,
    )
    print(f"report written to {path}")


def _add_table(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="+",
        metavar="[NAME=]PATH",
        help="folders of results, or of folders of results; a name stands for the team's",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--latex", action="store_true", help="LaTeX with booktabs, else text")
    form.add_argument("--markdown", action="store_true", help="Markdown, else text")
    parser.add_argument("--columns", nargs="+", metavar="NAME", help="which numbers")
    parser.add_argument(
        "--best",
        action="store_true",
        help="mark the best value of each column that has a better side: bold, in text a star; "
        "ties as shown. It marks and claims nothing: where intervals overlap the order may be "
        "chance (see llm-marl compare)",
    )
    parser.add_argument(
        "--caption", help="text, escaped, for a table environment around it (with --latex)"
    )
    parser.add_argument("--label", help="for references (with --latex)")
    parser.add_argument("--output", type=file_to_write, help="a file; printed where not given")


def _table(options: Namespace) -> None:
    from llm_marl_envs.files.atomic import replacing
    from llm_marl_envs.measure.numbers.tables import (
        latex_table,
        markdown_table,
        rows_at,
        text_table,
    )

    if not options.latex and (options.caption is not None or options.label is not None):
        raise ValueError("--caption and --label are for --latex")
    rows = []
    for name, path in named_arguments(options.path).items():
        added = rows_at(path)
        if name != path:
            alone = len(added) == 1
            added = [replace(row, label=name if alone else f"{name}: {row.label}") for row in added]
        rows += added
    if options.latex:
        about = {"caption": options.caption, "label": options.label}
        text = latex_table(rows, options.columns, **about, best=options.best)
    elif options.markdown:
        text = markdown_table(rows, options.columns, best=options.best)
    else:
        text = text_table(rows, options.columns, best=options.best) + "\n"
    if options.output:
        with replacing(options.output) as partial:
            partial.write_text(text, encoding="utf-8")
        print(f"written to {options.output}")
    else:
        print(text, end="")


REPORT = Command(
    name="report",
    about="Write one self-contained HTML file of what a demo, a training run or an evaluation left "
    "in a folder. Its pictures need matplotlib (extra eval or train).",
    example="runs/demo --output report.html",
    run=_report,
    add=_add_report,
)
TABLE = Command(
    name="table",
    about="A table of evaluations or of a sweep.",
    example="MAGRPO=runs/magrpo single=runs/single --latex --columns success mean_return",
    run=_table,
    add=_add_table,
)
