"""Addresses and forms over HTTP: what is answered, what is refused, what texts may do."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
import zipfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from support.app_site import served
from support.reports import HOSTILE, Reader

from llm_marl_envs.app.guards import MOST_BYTES
from llm_marl_envs.app.serve import launch, names_of
from llm_marl_envs.app.site import Site
from llm_marl_envs.app.space import write_space
from llm_marl_envs.commands.app import APP
from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.play.replay import replay

DEBATE = {"env_id": "debate-v0", "seed": "3"} | {f"seat.debater_{n}": "agreed" for n in range(3)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served([tmp_path_factory.mktemp("runs")]) as address:
        yield address


def ask(site: str, path: str, form: Any = None, **headers: str) -> tuple[int, str, Any]:
    """Status, text and headers; nothing is followed."""
    connection = http.client.HTTPConnection(urlsplit(site).netloc, timeout=60)
    body = None if form is None else urlencode(form)
    sent = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
    method = "GET" if form is None else "POST"
    connection.request(
        method, path, body, sent | {k.replace("_", "-"): v for k, v in headers.items()}
    )
    answer = connection.getresponse()
    return answer.status, answer.read().decode("utf-8"), answer.headers


def begun(site: str, **changes: str) -> str:
    status, _, headers = ask(site, "/games", DEBATE | changes)
    assert status == 303
    return headers["location"]


def question(text: str) -> str:
    return re.findall(r'name="question" value="(\d+)"', text)[0]


def test_pages_and_their_policy(site: str) -> None:
    for path in ("/", "/play", "/play/debate-v0", "/compare/debate-v0", "/watch", "/style.css"):
        status, text, headers = ask(site, path)
        assert status == 200, path
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        links = re.findall(r'(?:src|href)="([^"]*)"', text)
        assert not [link for link in links if link.startswith(("//", "http"))]  # this site alone


@pytest.mark.parametrize(
    "path", ["/play/os:system", "/play/nothing-v0", "/games/x", "/x", "/static/../site.py"]
)
def test_what_is_not_there(site: str, path: str) -> None:
    status, text, _ = ask(site, path)
    assert status == 404
    assert "Traceback" not in text


def test_other_sites_and_other_names_are_refused(site: str) -> None:
    assert ask(site, "/", Host="evil.example")[0] == 400
    for origin in ("http://evil.example", "null", "http://[", "", f"{site}.evil.example"):
        assert ask(site, "/games", DEBATE, Origin=origin)[0] == 403
    assert ask(site, "/games", DEBATE, Origin=site)[0] == 303


CROSS = {"Sec_Fetch_Site": "cross-site"}


@pytest.mark.parametrize(
    "headers",
    [CROSS, CROSS | {"Sec_Fetch_Mode": "no-cors"}, {"Sec_Fetch_Site": "same-site"}],
)
def test_another_sites_page_makes_no_environment(
    site: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by a form, nor by the address of a picture; a link to the first page is served."""
    monkeypatch.setattr("llm_marl_envs.app.games.make", None)
    evil, own = {"Referer": "http://evil.example/x"}, {"Referer": f"{site}/play"}
    for path in ("/play/debate-v0?arg.turns=3", "/compare/debate-v0", "/watch/runs?run=x"):
        for sent in (headers, headers | own, evil):
            assert ask(site, path, **sent)[0] == 403
    for sent in (headers, headers | own, evil, headers | {"Origin": site}):
        assert ask(site, "/games", DEBATE, **sent)[0] == 403
        assert ask(site, "/matches", DEBATE, **sent)[0] == 403
    for sent in (headers, evil):
        assert ask(site, "/", **sent)[0] == 200


def test_own_pages_and_typed_addresses_are_served(site: str) -> None:
    own = {"Referer": f"{site}/play/debate-v0?x=1"}
    for sent in ({"Sec_Fetch_Site": "same-origin"} | own, {"Sec_Fetch_Site": "none"}, own, {}):
        assert ask(site, "/play/debate-v0?arg.turns=3", **sent)[0] == 200
        assert ask(site, "/games", DEBATE, **sent)[0] == 303


@pytest.mark.parametrize("question", ["x", "-1", "9" * 99])
def test_a_question_that_is_none(site: str, question: str) -> None:
    place = begun(site, **{"seat.debater_2": "you"})
    status, text, _ = ask(site, f"{place}/act", {"question": question, "text": "lost"})
    assert status == 400
    assert "question" in text
    assert "lost" not in ask(site, place)[1]


def test_a_form_that_is_too_long(site: str) -> None:
    assert ask(site, "/games", {"env_id": "x" * MOST_BYTES})[0] == 413


def test_a_form_that_is_cut_off(site: str, caplog: pytest.LogCaptureFixture) -> None:
    address = urlsplit(site)
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall(
            b"POST /games HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\nenv"
        )
    time.sleep(0.5)
    assert ask(site, "/")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arg.n_agents": "99"}, "n_agents"),
        ({"arg.n_agents": "two"}, "n_agents"),
        ({"task": "99999999"}, "task 99999999: expected 0 to "),
        ({"seat.debater_1": "os:system"}, "debater_1"),
        ({"seat.debater_1": "<b>"}, "debater_1"),
        ({"arg.n_agents": "4"}, "debater_3"),  # a seat more than the form had
    ],
)
def test_a_mistake_is_one_line_above_the_form(
    site: str, changes: dict[str, str], said: str
) -> None:
    status, text, _ = ask(site, "/games", DEBATE | changes)
    assert status == 400
    (line,) = re.findall(r'role="alert">([^<]*)<', text)
    assert said in line
    assert "Begin" in text or "Show the seats" in text
    assert "Traceback" not in text


def test_an_episode_and_its_transcript(site: str, tmp_path: Path) -> None:
    place = begun(site, **{"seat.debater_2": "you"})
    _, text, _ = ask(site, place)
    assert ask(site, f"{place}/episode.jsonl")[0] == 404
    for said in ("first\r\nline", "Answer: x"):
        status, _, headers = ask(site, f"{place}/act", {"question": question(text), "text": said})
        assert (status, headers["location"]) == (303, place)
        _, text, _ = ask(site, place)
    status, record, headers = ask(site, f"{place}/episode.jsonl")
    assert status == 200
    assert "episodes.jsonl" in headers["content-disposition"]
    (tmp_path / "episode.jsonl").write_text(record)
    (episode,) = read_jsonl(tmp_path / "episode.jsonl")
    assert [t.action for t in episode.trajectory("debater_2")] == ["first\nline", "Answer: x"]
    assert [t.reward for t in replay(episode).turns] == [t.reward for t in episode.turns]
    assert "What the environment says" in text


def test_two_people_do_not_meet(site: str) -> None:
    one, other = (begun(site, **{"seat.debater_2": "you"}) for _ in range(2))
    assert one != other
    _, text, _ = ask(site, one)
    ask(site, f"{one}/act", {"question": question(text), "text": "only in mine"})
    assert "only in mine" in ask(site, one)[1]
    assert "only in mine" not in ask(site, other)[1]
    assert "Your action, turn 1" in ask(site, other)[1]
    status, _, headers = ask(site, f"{one}/act", {"leave": "1"})
    assert (status, headers["location"]) == (303, "/play")
    assert ask(site, one)[0] == 404
    assert ask(site, other)[0] == 200


def test_hostile_texts_stay_texts(site: str) -> None:
    place = begun(site, **{"seat.debater_2": "you"})
    whole = "\n".join(HOSTILE).replace("\r", "").replace("\ud800", "")
    _, text, _ = ask(site, place)
    harmless = {tag for tag, _ in Reader(text).tags}
    ask(site, f"{place}/act", {"question": question(text), "text": whole})
    read = Reader(ask(site, place)[1])
    assert visible(whole) in read.text
    assert {tag for tag, _ in read.tags} == harmless
    names = {name for _, attributes in read.tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]


def test_two_teams_and_pairings(site: str) -> None:
    seats = ("helper_0", "main_0")
    sides = {f"left.{a}": "agreed" for a in seats} | {f"right.{a}": "silent" for a in seats}
    form = {"env_id": "coop_coding-v0", "seed": "1"}
    _, _, headers = ask(site, "/matches", form | sides)
    text = finished(site, headers["location"])
    assert "solved (1.00)" in text
    assert "not solved (0.00)" in text
    chosen = {"team.agreed": "1", "team.silent": "1", "tasks": "3"}
    _, _, headers = ask(site, "/pairings", form | chosen)
    assert "heat" in finished(site, headers["location"])
    status, text, _ = ask(site, "/pairings", form | {"team.agreed": "1"})
    assert (status, "2 to 6" in text) == (400, True)


def finished(site: str, place: str) -> str:
    for _ in range(60):
        _, text, headers = ask(site, f"{place}/part")
        if headers["x-working"] == "0":
            return text
    raise AssertionError("it does not end")


def test_a_run_that_is_no_run(site: str) -> None:
    status, text, _ = ask(site, "/watch/runs?run=../../etc")
    assert status == 200
    assert "no such folder" in text
    assert ask(site, "/watch/runs")[2]["location"] == "/watch"


def test_it_starts_without_torch_and_soon(run_python: Any) -> None:
    program = (
        "import time; start = time.process_time()\n"
        "from llm_marl_envs.app.serve import launch\n"
        "from llm_marl_envs.app.site import Site\n"
        "Site(['runs']).program()\n"
        "taken = time.process_time() - start\n"
        "import sys; from support.cost import seconds_of_a_loop\n"
        "print({'torch', 'transformers', 'matplotlib', 'pandas'} & set(sys.modules))\n"
        "print(taken * min(1, 0.001 / seconds_of_a_loop()))"
    )
    heavy, seconds = run_python(program).splitlines()
    assert heavy == "set()"
    assert float(seconds) < 3


def test_the_command(tmp_path: Path) -> None:
    folders = [str(tmp_path), str(tmp_path / "later")]
    command = [sys.executable, "-m", "llm_marl_envs.cli", "app", *folders, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"{tmp_path / 'later'}: not there yet")
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        assert ask(address, "/")[0] == 200
        taken = subprocess.run(
            [*command[:-1], address.rpartition(":")[2]], capture_output=True, text=True
        )
        assert taken.returncode != 0
        assert "port" in taken.stderr
        assert "Traceback" not in taken.stderr
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none(tmp_path: Path, port: int) -> None:
    with pytest.raises(ValueError, match="port"):
        launch(Site([tmp_path]), port=port)


def test_names_of_an_address() -> None:
    assert {"127.0.0.2", "localhost"} <= {*names_of("127.0.0.2")}  # as its own address says
    assert "*" not in names_of("::1")
    for host in ("0.0.0.0", "::", "10.0.0.1", "some.machine"):
        assert names_of(host) == ("*",)


def test_what_a_space_needs(tmp_path: Path) -> None:
    wheel = tmp_path / "llm_marl_envs-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("llm_marl_envs/__init__.py", "")
    assert "Replaced" not in write_space(tmp_path / "space", wheel)
    written = {p.name for p in (tmp_path / "space").iterdir()}
    assert written == {"README.md", "Dockerfile", wheel.name, "runs"}
    card = (tmp_path / "space" / "README.md").read_text()
    assert "sdk: docker" in card
    docker = (tmp_path / "space" / "Dockerfile").read_text()
    (line,) = re.findall(r"CMD (\[.*\])", docker, re.DOTALL)
    words = json.loads(line.replace("\\\n", ""))
    parser = ArgumentParser()
    APP.add(parser)
    parsed = parser.parse_args(words[2:])  # the command takes what the file says
    assert (parsed.port, parsed.frame) == (7860, ["https://huggingface.co"])
    assert write_space(tmp_path / "space", wheel).endswith(
        f"Replaced: README.md, Dockerfile, {wheel.name}."
    )
    for missing in (tmp_path / "other.whl", tmp_path / "none"):
        with pytest.raises(ValueError, match="wheel"):
            write_space(tmp_path / "space", missing)
