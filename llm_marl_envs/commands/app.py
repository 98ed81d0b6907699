"""`llm-marl app`: pages in a browser."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from llm_marl_envs.commands import Command
from llm_marl_envs.commands.options import folder_to_write, quiet_libraries


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        default=["runs"],
        metavar="FOLDER",
        help="where runs, saved teams and models are looked for; no other is read (default runs)",
    )
    parser.add_argument(
        "--player",
        action="append",
        default=[],
        metavar="POLICY",
        help="one more that may take a seat, as --team of llm-marl eval takes it: "
        "endpoint:URL#MODEL, a Transformers model, module:function; may be repeated",
    )
    parser.add_argument("--port", type=int, default=7860, help="default 7860; 0: a free one")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to bind (default 127.0.0.1, this machine alone)",
    )
    parser.add_argument(
        "--frame",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a site that may show the pages in a frame, such as https://huggingface.co",
    )
    parser.add_argument(
        "--space",
        type=folder_to_write,
        metavar="FOLDER",
        help="write what a Hugging Face Space needs there, and end",
    )
    parser.add_argument("--wheel", help="with --space: the wheel (default: the newest in dist)")


def _run(options: Namespace) -> None:
    quiet_libraries()
    if options.space is not None:
        from llm_marl_envs.app.space import write_space

        print(write_space(options.space, options.wheel))
        return
    from llm_marl_envs.app.serve import launch
    from llm_marl_envs.app.site import Site

    site = Site(options.folders, options.player, options.frame)
    for folder in options.folders:
        if not Path(folder).exists():
            print(f"{folder}: not there yet; what is written into it will be shown")
    launch(site, options.host, options.port)


APP = Command(
    name="app",
    about="Play episodes, watch runs and compare teams in a browser.",
    example="runs --player endpoint:http://localhost:8000#qwen",
    run=_run,
    add=_add,
)
