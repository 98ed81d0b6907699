"""Calls between processes, as the judge sees them: who may call whom, by value.

Owns the exchange with programs, the requests of one program for a function of another, the
functions that tests lend to programs, the trace, and to whom a failure is charged. Everything
received is decoded and encoded anew before it goes on. Does not own tests nor verdicts
(`examiner`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from . import codec, faults
from .contract import Contract
from .ledger import JUDGE, Ledger
from .replacements import Replacement
from .wire import Channel, ProtocolError

MAX_CALLS = 20_000  # that one program makes in one run, of helpers and of lent functions
LENT_CAP = 1 << 20  # bytes of one call of a helper and of its reply
MAX_SENT = 64 << 20  # bytes that one program sends in one run
MAX_TRACE = 200  # helper calls that are reported
MAX_TRACE_TEXT = 4_096  # characters of one encoded value in the trace; longer ones become opaque
MAX_ERROR = 200


class Failure(BaseException):
    """A failure of a program that no `except` of a test may hide."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class Fatal(Failure):
    """A failure after which a program cannot answer any more."""

    def __init__(self, status: str, text: str, author: str, ended: str = "") -> None:
        super().__init__(status, text)
        self.author = author  # to whom it is charged
        self.ended = ended  # the program whose process has ended, if that is the failure


class Router:
    """Carries calls between tests and programs, and between programs, in plain values."""

    def __init__(
        self, job: dict[str, Any], peers: list[Channel], ledger: Ledger | None = None
    ) -> None:
        self.programs: list[str] = job["programs"]
        self.exports: dict[str, list[str]] = job["exports"]
        self.owner = {f: owner for owner, names in self.exports.items() for f in names}
        contracts = job.get("contracts", {})
        self.contracts = {
            f: Contract.of(contracts[f]) if f in contracts else Contract() for f in self.owner
        }
        self.replaced = {f: Replacement(**data) for f, data in job.get("replaced", {}).items()}
        self.peers = dict(zip(self.programs, peers, strict=True))
        self.main = self.programs[-1]
        for helper in self.programs[:-1]:
            self.peers[helper].cap = LENT_CAP
        self.ledger = ledger or Ledger(self.programs)
        self.answers = {program: program for program in self.programs}  # who answers for whom now
        self.functions: dict[str, list[str]] = {}  # callable names by program
        self.current = -1  # index of the unit that runs
        self.helper_calls: Counter[int] = Counter()  # by unit
        self.trace: list[list[Any]] = []
        self.calls = 0
        self.made: Counter[str] = Counter()  # calls, by the program that made them
        self.served: Counter[str] = Counter()  # calls, by exported function
        self.sent: Counter[str] = Counter()  # bytes, by program
        self.begin()

    def begin(self) -> None:
        """Forget what passed in the call of a test before."""
        self.lent: list[Callable[..., Any]] = []  # functions the test passed
        # What helpers gave, with the one who answers for it: canonical values, exceptions, and the
        # first value that was not plain.
        self.received: dict[str, str] = {}
        self.values: list[Any] = []  # the same values, encoded
        self.thrown: dict[tuple[str, str], str] = {}
        self.odd: str | None = None

    def load(self, program: str) -> None:
        """Wait for a program's load report. Raises Fatal if it did not load."""
        while "request" in (message := self.receive(program)):
            self.relay(program, message)
        if message.get("ready") is True:
            names = message.get("names")
            if type(names) is not list:
                raise self.fault("protocol", "malformed load report", program)
            self.functions[program] = [n for n in names if type(n) is str]
            return
        names = faults.names_of(message.get("raised"))
        if not names:
            raise self.fault("protocol", "malformed load report", program)
        text = message.get("message")
        author = self.thrower(program, names, text)
        detail = f"{names[0]}: {text[:MAX_ERROR]}" if type(text) is str else names[0]
        for place in ("line", "column") if author == program else ():
            if type(message.get(place)) is int:
                detail += f", {place} {message[place]}"
        status = "load_error"
        if message.get("failed") == "run":
            ends = {"SystemExit": "early_exit", "MemoryError": "memory"}
            status = next((ends[n] for n in names if n in ends), status)
        raise Fatal(status, detail, author)

    def exchange(self, program: str, name: str, args: Any, kwargs: Any) -> dict[str, Any]:
        """One call of a program, serving its requests meanwhile. Returns its final reply."""
        self.calls += 1
        number = self.calls  # a lent function may make further ones meanwhile
        self.send(program, {"id": number, "call": name, "args": args, "kwargs": kwargs})
        while "request" in (reply := self.receive(program)) or "lent" in reply:
            serve = self.relay if "request" in reply else self.call_lent
            serve(program, reply)
        if reply.get("id") != number or type(reply["id"]) is not int:
            raise self.fault("protocol", "a reply to no call", program)
        return reply

    def lend(self, function: Callable[..., Any]) -> dict[str, int]:
        """The encoded form of a test's function, which the program may call until it returns."""
        self.lent.append(function)
        return {"lent": len(self.lent) - 1}

    def call_lent(self, program: str, message: dict[str, Any]) -> None:
        """Call a function that the test passed to the program, with plain values."""
        try:
            function = self.lent[int(message["lent"])]
            args = codec.decode(message["args"])
            kwargs = {str(key): codec.decode(data) for key, data in message["kwargs"]}
        except (LookupError, TypeError, ValueError, OverflowError):
            text = "a malformed call of a test's function"
            raise self.fault("protocol", text, program) from None
        if program != self.main:
            raise self.fault("protocol", "a call of a test's function by a helper", program)
        self.count(program)
        try:
            answer = {"value": codec.encode_any(function(*args, **kwargs))}
        except Exception as error:  # noqa: BLE001 - the program is to see what the function raised
            answer = faults.describe(error)
        self.send(program, answer)

    def relay(self, program: str, message: dict[str, Any]) -> None:
        """Answer one program's request for a function of another, by value."""
        name = message["request"]
        owner = self.owner.get(name) if type(name) is str else None
        if owner is None or owner == program or program != self.main:
            text = "a request for a function that is not exported"
            raise self.fault("protocol", text, program)
        self.count(program)
        size = self.peers[program].size
        if size > LENT_CAP:
            text = f"a call of {name} with {size} bytes, at most {LENT_CAP} are accepted"
            raise self.fault("protocol", text, program)
        try:
            values, opaque = codec.decode_checked(message["args"])
            args = [codec.encode(value) for value in values]
            kwargs = []
            for key, data in message["kwargs"]:
                value, odd = codec.decode_checked(data)
                kwargs.append([str(key), codec.encode(value)])
                opaque = opaque or odd
        except (KeyError, TypeError, ValueError, MemoryError):
            raise self.fault("protocol", "a malformed request", program) from None
        if opaque:
            self.send(
                program, {"raised": ["TypeError"], "message": f"{name} takes plain values only"}
            )
            return
        if name not in self.functions[owner]:  # all helpers are loaded before main is heard
            text = f"name '{name}' is not defined"
            self.thrown["NameError", text] = owner
            self.send(program, {"raised": ["NameError"], "message": text})
            return
        self.helper_calls[self.current] += 1
        self.served[name] += 1
        if not self.allowed(name, args, kwargs):
            self.answers[owner] = program
        try:
            reply = self.exchange(owner, name, args, kwargs)
            answer = self.checked(owner, name, args, kwargs, reply)
        finally:
            self.answers[owner] = owner
        self.send(program, answer)

    def allowed(self, name: str, args: list[Any], kwargs: list[Any]) -> bool:
        """Whether the author of an exported function answers for this call of it."""
        contract = self.contracts[name]
        return self.served[name] <= contract.calls and contract.allows(args, kwargs)

    def count(self, program: str) -> None:
        """Count a call that a program makes. Raises Fatal if it was one too many."""
        self.made[program] += 1
        if self.made[program] > MAX_CALLS:
            raise self.fault("protocol", f"more than {MAX_CALLS} calls", program)

    def fault(self, status: str, text: str, program: str, ended: bool = False) -> Fatal:
        """A failure of a program, charged to whoever answers for it now."""
        author = self.answers[program]
        if author != program:
            text += f", called by {author} beyond its contract"
        return Fatal(status, text, author, program if ended else "")

    def thrower(self, program: str, names: list[str], message: Any) -> str:
        """To whom an exception of a program is charged: it may have come from a helper."""
        if program != self.main:
            return self.answers[program]
        return self.odd or self.thrown.get(_key(names, message), program)

    def checked(
        self, owner: str, name: str, args: Any, kwargs: Any, reply: dict[str, Any]
    ) -> dict[str, Any]:
        """A helper's reply, made anew from decoded parts, and noted in the trace."""
        if "value" in reply:
            try:
                value, opaque = codec.decode_checked(reply["value"])
                result = codec.encode(value)
            except codec.CodecError as error:
                text = f"{name} returned a malformed value: {error}"
                raise self.fault("protocol", text, owner) from None
            except MemoryError:
                text = f"{name} returned more than the tests can hold"
                raise self.fault("memory", text, owner) from None
            if opaque and self.odd is None:
                self.odd = self.answers[owner]
            text = codec.canonical(result)
            if text not in self.received:
                self.values.append(result)
            self.received[text] = self.answers[owner]
            answer: dict[str, Any] = {"value": result}
            if name in self.replaced:
                answer = self.replaced[name].answer(args, kwargs, result)
        else:
            names = faults.names_of(reply.get("raised"))
            status, text = ending(names, reply.get("message"))
            if status != "exception":
                raise self.fault(status, f"{name} raised {text}", owner)
            result = {"x": f"raised {text}"[: codec.MAX_NAME]}
            message = reply.get("message")
            self.thrown[_key(names, message)] = self.answers[owner]
            answer = {"raised": names, "message": message if type(message) is str else ""}
        if len(self.trace) < MAX_TRACE:
            named = {"d": kwargs}
            whole = {"t": [*args, named] if kwargs else args}
            self.trace.append([self.current, name, _bounded(whole), _bounded(result)])
        return answer

    def send(self, program: str, message: object) -> None:
        """Send a message to a program. Raises Fatal if it is gone."""
        self.ledger.turn(program, self.answers[program])
        try:
            self.peers[program].send(message)
        except OSError:
            raise self.fault("died", f"{program} ended", program, ended=True) from None

    def receive(self, program: str) -> dict[str, Any]:
        """The next message of a program. Raises Fatal if it is gone or talks nonsense."""
        self.ledger.turn(program, self.answers[program])
        try:
            message = self.peers[program].receive()
        except EOFError:
            raise self.fault("died", f"{program} ended", program, ended=True) from None
        except ProtocolError as error:
            raise self.fault("protocol", str(error), program) from None
        except MemoryError:
            raise self.fault("memory", "a message too large to be read", program) from None
        finally:
            self.ledger.turn(JUDGE, self.answers[program])
        if type(message) is not dict:
            raise self.fault("protocol", "a message that is no object", program)
        self.sent[program] += self.peers[program].size
        if self.sent[program] > MAX_SENT:
            raise self.fault("protocol", f"sent more than {MAX_SENT} bytes", program)
        return message


def ending(names: list[str], message: Any) -> tuple[str, str]:
    """Status and text of an exception that travelled."""
    text = f"{names[0] if names else 'an unnamed exception'}"
    if type(message) is str and message:
        text += f": {message[:MAX_ERROR]}"
    if "SystemExit" in names:
        return "early_exit", text
    if "MemoryError" in names:
        return "memory", text
    return "exception", text


def _key(names: list[str], message: Any) -> tuple[str, str]:
    """What tells one exception from another after its way through a program."""
    error = faults.rebuild(names, message)
    return (type(error).__name__, str(error.args[0])) if error else ("", "")


def _bounded(encoded: Any) -> Any:
    if len(codec.canonical(encoded)) > MAX_TRACE_TEXT:
        return {"x": "too large to report"}
    return encoded
