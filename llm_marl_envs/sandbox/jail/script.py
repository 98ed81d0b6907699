"""The side of a script: a whole program with standard input and output.

Owns loading it as `__main__` on the descriptors that come with the job. The output is bytes on a
pipe; what they are worth is decided by whoever reads the other end.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import ModuleType
from typing import Any

from .wire import SocketChannel

EXIT_EXCEPTION = 1
EXIT_LOAD = 65
EXIT_MEMORY = 66


def serve(channel: SocketChannel, job: dict[str, Any]) -> None:
    """Run `job["source"]` to its end and exit with a code that says how it ended."""
    stdin, stdout, stderr = channel.fds
    for target, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, target)
        os.close(fd)
    # These stay open until the process ends.
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    code = _run(job["source"])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the streams may be the program's own objects, or the pipe full and shut
        code = code or EXIT_EXCEPTION
    os._exit(code)


def _run(source: str) -> int:
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        code = compile(source, "<program>", "exec", dont_inherit=True)
    except BaseException as error:  # noqa: BLE001 - the text may be anything
        sys.stderr.write(_last_line(error))
        return EXIT_LOAD
    try:
        exec(code, vars(module))
        _join()
        return 0
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except MemoryError:
        return EXIT_MEMORY
    except BaseException as error:  # noqa: BLE001 - untrusted code raises what it likes
        sys.stderr.write(_last_line(error))
        return EXIT_EXCEPTION


def _join() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _last_line(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error))
    except BaseException:  # noqa: BLE001 - __str__ may be the program's own code
        return type(error).__name__
