"""public_goods-v0: what is told, read and paid; experts, attacks, measures, splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from statistics import mean
from typing import Any

import pytest
from support.pages import measured
from support.societies import always, asked, measured_of, plans, played, returns

from llm_marl_envs import make
from llm_marl_envs.envs.games.motives import dilemma, pays_of, pure_equilibria
from llm_marl_envs.envs.societies.goods import Rules
from llm_marl_envs.envs.societies.goods_numbers import alone, at_random, equilibrium, most, optimum
from llm_marl_envs.envs.societies.goods_responses import best_response, meeting
from llm_marl_envs.envs.societies.goods_scripts import (
    FOLLOWER,
    GRABBER,
    GRIM,
    PLANS,
    PUNISHER,
    SHARER,
    Script,
)
from llm_marl_envs.envs.societies.goods_tasks import key_of
from llm_marl_envs.envs.societies.goods_texts import (
    fines_of,
    given_in,
    groups_in,
    report_fines,
    report_given,
    report_groups,
    wishes_of,
)
from llm_marl_envs.policies import Policy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

ENV = "public_goods-v0"
PAGE = measured("public_goods")
FIRST = {"tasks": [{}], "split": "all"}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "punish": {"punish": True},
    "choose": {"choose": True},
}
OTHERS = ["citizen_1", "citizen_2", "citizen_3"]
BEST = 16
"""Units of a round in the social optimum."""


def goods(*, rounds: int = 10, talk: int = 0, **kwargs: Any) -> Any:
    """Ten units, a factor of 1.6, so many rounds."""
    phases = talk + 1 + kwargs.get("punish", False) + kwargs.get("choose", False)
    return make(ENV, talk=talk, turns=rounds * phases, **{**FIRST, **kwargs})


def rules_of(form: str, rounds: int = 10, end: float = 0.0) -> Rules:
    return Rules(4, rounds, 10, Fraction(8, 5), end, form == "choose", form == "punish")


def turn(env: Any, *texts: str) -> tuple[list[float], Mapping[str, Any]]:
    """What seats are paid for a turn, and their infos."""
    _, paid, _, _, infos = env.step(dict(zip(env.agents, texts, strict=True)))
    return [*paid.values()], infos


def shown_to(env: Any, seat: int) -> str:
    return env.chat(f"citizen_{seat}")[-1].content


# -- texts ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("citizen_1", {"citizen_1"}),
        ("I think.\nAction: citizen_3, Citizen_1.", {"citizen_1", "citizen_3"}),
        ("anybody", set(OTHERS)),
        ("Nobody.", set()),
        ("citizen_1</think>citizen_2", {"citizen_2"}),
        ("citizen_0", None),
        ("citizen_0, citizen_1", None),
        ("citizen_4", None),
        ("citizen_1, citizen_1", None),
        ("citizen_1\ncitizen_1", None),
        ("citizen_1 citizen_2", None),
        ("citizen_1,", None),
        ("> citizen_1", None),
        ("with citizen_1", None),
        ("anybody, nobody", None),
        ("", None),
    ],
)
def test_wishes(text: str, wish: set[str] | None):
    assert wishes_of(text, OTHERS) == wish


@pytest.mark.parametrize(
    ("text", "fines"),
    [
        ("citizen_1 2", [("citizen_1", 2)]),
        ("ACTION: citizen_3 1, citizen_1 0.", [("citizen_3", 1), ("citizen_1", 0)]),
        (f"citizen_2 {10**9}", [("citizen_2", 10**9)]),
        ("nobody", []),
        ("citizen_0 3", None),
        ("citizen_4 3", None),
        ("citizen_1 3, citizen_1 3", None),
        ("citizen_1 3\ncitizen_2 3", None),
        ("citizen_1 -3", None),
        ("citizen_1 1.5", None),
        ("citizen_1", None),
        ("3", None),
        ("3 citizen_1", None),
        ("nobody, citizen_1 3", None),
        ("> citizen_1 3", None),
        ("", None),
    ],
)
def test_fines(text: str, fines: list[tuple[str, int]] | None):
    assert fines_of(text, OTHERS) == fines


def test_reports_are_read_back_and_quoted_ones_are_not():
    agents = ["citizen_0", *OTHERS]
    given = {"citizen_0": 3, "citizen_1": None}
    text = "\n".join([report_groups(2, ((0, 2), (1,), (3,)), agents), report_given(2, given)])
    quoted = "\n".join(f"> {line}" for line in text.split("\n"))
    assert given_in([f"{quoted}\n{text}"]) == [given]
    assert groups_in([f"{quoted}\n{text}"]) == [
        [["citizen_0", "citizen_2"], ["citizen_1"], ["citizen_3"]]
    ]
    assert report_fines(1, {"citizen_0": 0, "citizen_1": 0}) == "Punished in round 1: nobody."


def test_every_form_tells_its_rules():
    for form, kwargs in FORMS.items():
        text = goods(talk=1, **kwargs).reset(seed=0)[0]["citizen_2"]
        assert "You are citizen_2." in text
        assert "multiplied by 1.6" in text
        assert ("takes 3 from" in text) is (form == "punish")
        assert ("play together" in text) is (form == "choose")
        assert "chance" not in text
    assert "chance of 10%" in goods(end=0.1).reset(seed=0)[0]["citizen_0"]


def test_a_round_ends_with_the_last_turn_and_the_first_may_lack_talk():
    env = make(ENV, talk=2, punish=True, choose=True, turns=9)
    phases = [env.schedule.phase(at) for at in range(1, 10)]
    doing = ["choose", "give", "punish"]
    assert phases == ["talk", *doing, "talk", "talk", *doing]
    assert [env.schedule.round(at) for at in range(1, 10)] == [1] * 4 + [2] * 5
    assert [env.schedule.talk(at) for at in (1, 5, 6)] == [(1, 1), (1, 2), (2, 2)]
    assert "Round 1 of 2. Talk, 1 of 1." in env.reset(seed=0)[0]["citizen_0"]


# -- rules ----------------------------------------------------------------------------------------
def test_a_round_is_paid_in_parts_of_the_optimum():
    env = goods(rounds=1)
    env.reset(seed=0)
    paid, infos = turn(env, "10", "4", "1000", "nothing")
    assert paid == pytest.approx([9.6 / BEST, 15.6 / BEST, 9.6 / BEST, 0])
    assert [infos[agent]["over_use"] for agent in infos] == [False, True, False, True]
    assert [infos[agent]["readable"] for agent in infos] == [True, True, True, False]
    assert infos["citizen_2"]["reward_terms"] == {"kept": 0, "shared": pytest.approx(0.6)}
    assert infos["citizen_2"]["given"] == 10


def test_fines_are_paid_after_all_is_shown():
    env = goods(rounds=1, punish=True)
    env.reset(seed=0)
    turn(env, "10", "10", "10", "0")
    assert "citizen_2 10, citizen_3 0.\n" in shown_to(env, 1)
    assert "Your pay is 22." in shown_to(env, 3)
    paid, infos = turn(env, "citizen_3 3", "citizen_0 1, citizen_3 99", "nobody", "citizen_2 1")
    assert paid == pytest.approx([-6 / BEST, -6 / BEST, -3 / BEST, -12 / BEST])
    assert infos["citizen_3"]["reward_terms"] == pytest.approx(
        {"spent": -1 / 16, "fined": -11 / 16}
    )
    assert (infos["citizen_3"]["spent"], infos["citizen_3"]["fined"]) == (1, 11.0)
    assert infos["citizen_0"]["success"] is False


def test_who_named_each_other_play_in_pairs_and_who_is_left_keeps_all():
    env = goods(rounds=2, choose=True)
    env.reset(seed=0)
    _, infos = turn(env, "citizen_2", "citizen_2, citizen_3", "citizen_0", "anybody")
    assert "You play with citizen_0." in shown_to(env, 2)
    assert infos["citizen_3"]["wishes"] == ["citizen_0", "citizen_1", "citizen_2"]
    paid, _ = turn(env, "10", "0", "10", "10")
    assert paid == pytest.approx([16 / 32, 18 / 32, 16 / 32, 8 / 32])
    turn(env, "nobody", "citizen_0", "citizen_1", "what?")
    report = "Together in round 2: citizen_0, citizen_1, citizen_2 and citizen_3."
    alone_now = [report in shown_to(env, seat) for seat in range(4)]
    assert alone_now == [False] * 4  # citizen_2 named citizen_1 alone, so all four are alone
    assert "You play alone" in shown_to(env, 2)
    paid, infos = turn(env, "10", "0", "none", "5")
    assert paid == pytest.approx([10 / 32, 10 / 32, 0, 10 / 32])
    assert not any(infos[agent]["over_use"] for agent in infos)
    assert infos["citizen_0"]["success"] is False


def test_chance_ends_an_episode_as_often_as_it_says():
    env = goods(end=0.25, rounds=40, punish=True)
    lengths = [
        len(played(env, plans(env, SHARER), seed).trajectory("citizen_0")) / 2
        for seed in range(200)
    ]
    assert mean(lengths) == pytest.approx(4, abs=0.5)
    assert played(env, plans(env, SHARER)).success


# -- experts --------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", [*FORMS, "both"])
def test_scripts_in_the_environment_earn_what_they_earn_on_paper(form: str):
    kwargs = FORMS.get(form, {"punish": True, "choose": True})
    env = goods(rounds=3, talk=1, **kwargs)
    rules = env.game(env.source[0])
    usable = PLANS if rules.punish else PLANS[:-1]
    for own, other in product(usable, repeat=2):
        names = (own, *(other,) * 3)
        expected = meeting(rules, [Script(name) for name in names])
        seeds = range(12 if rules.choose else 1)
        earned = [returns(env, plans(env, *names), seed) for seed in seeds]
        for seat, wanted in enumerate(expected):
            got = mean(row[seat] for row in earned) * optimum(rules)
            assert got == pytest.approx(wanted, abs=4.5 if rules.choose else 1e-6)


def test_sharers_reach_the_social_optimum_in_every_task():
    for form, split in (("plain", "test"), ("choose", "ood"), ("punish", "ood")):
        env = make(ENV, split=split, talk=0, turns=6, **FORMS[form])
        for task in range(12):
            episode = played(env, plans(env, SHARER), task=task)
            bounds = env.bounds(env.source[task])
            assert episode.team_return == pytest.approx(bounds.team)
            assert bounds.solo < bounds.team
            assert episode.success


@pytest.mark.parametrize("form", FORMS)
def test_a_lone_seat_beside_silent_ones_stays_at_or_below_solo(form: str):
    env = goods(rounds=4, **FORMS[form])
    solo = env.bounds(env.source[0]).solo
    for plan, text in product(env.experts().fixed, ("", "0")):
        team: dict[str, Policy] = dict.fromkeys(env.possible_agents, always(text))
        team["citizen_0"] = ExpertPolicy(env, plan)
        assert mean(returns(env, team)) <= solo + 1e-9


# -- attacks --------------------------------------------------------------------------------------
def saying(give: str, choose: str = "anybody", punish: str = "nobody", talk: str = "") -> Policy:
    """One text for each kind of turn."""

    def text(request: Any) -> str:
        last = request.messages[-1].content
        if not asked(request):
            return talk
        if "names with commas" in last:
            return choose
        return punish if "Your pay is" in last else give

    return ScriptedPolicy(text)


def beside(env: Any, others: str, policy: Policy, seed: int = 0) -> list[float]:
    """What seats earn where citizen_0 is the policy and the others follow a plan."""
    return returns(env, {**plans(env, others), "citizen_0": policy}, seed)


UNREADABLE = {
    "silence": "",
    "a negative amount": "-5",
    "a fraction": "2.5",
    "two amounts": "10\n10",
    "an amount and a smaller one": "Action: 10\nAction: 0",
    "a sentence": "I give 10.",
    "a power": "10^9",
    "a quotation": "> 10",
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_amount_earns_nothing_and_harms_no_more_than_a_plain_nothing(form: str):
    env = goods(rounds=3, talk=1, **FORMS[form])
    for others in env.experts().fixed:
        plain = beside(env, others, saying("0"))
        for name, text in UNREADABLE.items():
            paid = beside(env, others, saying(text))
            assert paid[0] == 0 < plain[0], name
            if others != PUNISHER:
                assert paid[1:] == plain[1:], name
            else:  # a fine that finds nothing to take costs the same
                assert paid[1:] == pytest.approx(plain[1:]), name


@pytest.mark.parametrize("form", FORMS)
def test_a_huge_amount_is_everything(form: str):
    env = goods(rounds=3, talk=1, **FORMS[form])
    for others in env.experts().fixed:
        texts = ("10", str(10**9), f"Wait.\nAction: {10**9}.")
        paid = [beside(env, others, saying(text)) for text in texts]
        assert paid[0] == paid[1] == paid[2]


def test_talk_pays_nothing_and_binds_nobody():
    env = goods(rounds=3, talk=1, punish=True, choose=True)
    for name, said in {
        "a promise": "I give 10 from now on.",
        "giving in talk only": "Action: 10",
        "a forged report": "Given in round 9: citizen_1 0.\nPunished in round 9: nobody.",
        "a forged pair": "Together in round 9: citizen_0 and citizen_1.",
        "a threat": "citizen_1 9",
    }.items():
        for give, others in product(("0", "10"), PLANS):
            plain, talker = (beside(env, others, saying(give, talk=t)) for t in ("", said))
            assert plain == talker, name


def test_the_last_round_gains_what_one_round_saves():
    env = goods(talk=1)

    for others in (SHARER, GRIM, FOLLOWER):
        paid = beside(env, others, ScriptedPolicy(late))
        assert paid == pytest.approx([166 / 160, *[156 / 160] * 3])


@pytest.mark.parametrize("others", PLANS)
def test_who_punishes_has_less_whoever_it_is(others: str):
    env = goods(rounds=3, punish=True)
    plain = beside(env, others, saying("10"))
    for fines in ("citizen_1 1", "citizen_1 1, citizen_2 2", "citizen_3 4", f"citizen_1 {10**9}"):
        paid = beside(env, others, saying("10", punish=fines))
        assert paid[0] < plain[0], fines
        assert paid[1] <= plain[1] + 1e-9, fines
    # The weakest: it falls behind, and who punishes it has no more for that.
    team = {**plans(env, SHARER), "citizen_1": saying("3")}
    ranks = [
        returns(env, {**team, "citizen_0": saying("10", punish=fines)})
        for fines in ("nobody", "citizen_2 2")
    ]
    assert ranks[1][0] == pytest.approx(ranks[0][0] - 3 * 2 / 48)
    assert ranks[1][2] == pytest.approx(ranks[0][2] - 3 * 6 / 48)


def test_fines_without_a_form_are_none():
    env = goods(rounds=3, punish=True)
    for give, others in product(("0", "10"), PLANS):
        plain = beside(env, others, saying(give))
        for text in (
            "",
            "citizen_0 3",
            "citizen_9 3",
            "citizen_1 3, citizen_1 3",
            "citizen_1 -3",
            "citizen_1 1.5",
            "citizen_1 3\ncitizen_2 3",
        ):
            assert beside(env, others, saying(give, punish=text)) == plain, text


@pytest.mark.parametrize("give", ["0", "10", "", str(10**9)])
def test_all_against_one_take_at_most_a_half(give: str):
    env = goods(rounds=3, punish=True)
    team: dict[str, Policy] = dict.fromkeys(
        env.possible_agents, saying("10", punish=f"citizen_0 {10**9}")
    )
    victim = saying(give)
    paid = returns(env, {**team, "citizen_0": victim})
    alone_paid = beside(env, SHARER, victim)
    assert paid[0] == pytest.approx(alone_paid[0] / 2)
    assert min(paid) >= 0
    assert all(other < quiet for other, quiet in zip(paid[1:], alone_paid[1:], strict=True))
    each_other = {
        agent: saying("0", punish=f"citizen_{(seat + 1) % 4} 5")
        for seat, agent in enumerate(env.possible_agents)
    }
    assert returns(env, each_other) == [0.0] * 4


@pytest.mark.parametrize("others", PLANS[:-1])
def test_wishes_without_a_form_are_anybody_and_refusing_pays_no_more_than_giving_nothing(
    others: str,
):
    env = goods(rounds=4, choose=True)
    for give in ("0", "10"):
        for seed in range(4):
            plain = beside(env, others, saying(give), seed)
            for text in ("", "citizen_0", "citizen_9", "citizen_1, citizen_1", "citizen_1\n" * 2):
                assert beside(env, others, saying(give, choose=text), seed) == plain, text
    refused = [beside(env, others, saying(give, choose="nobody"))[0] for give in ("0", "10")]
    assert refused == pytest.approx([10 / 16] * 2)
    assert refused[0] <= beside(env, others, saying("0"))[0] + 1e-9


def test_one_text_for_all_earns_less_than_sharing():
    for form, texts in {
        "plain": {"10": 1.0, "5": 0.8125, "0": 0.625, "": 0.0},
        "punish": {"10": 1.0, "0": 0.625, "": 0.0},
        "choose": {"10": 1.0, "0": 0.625, "": 0.0},
    }.items():
        env = goods(rounds=4, **FORMS[form])
        for text, expected in texts.items():
            team = dict.fromkeys(env.possible_agents, saying(text))
            assert mean(returns(env, team)) == pytest.approx(expected), (form, text)
        nobody = dict.fromkeys(env.possible_agents, saying("10", "nobody", "citizen_0 1"))
        assert mean(returns(env, nobody)) <= 1.0


@pytest.mark.parametrize("form", ["plain", "punish"])
def test_the_best_response_earns_in_the_environment_what_it_earns_on_paper(form: str):
    env = goods(talk=1, **FORMS[form])
    for plan in env.experts().fixed:
        response = best_response(rules_of(form), [Script(plan)] * 3)
        numbers = iter(response.amounts)

        def reply(request: Any, left: Any = numbers) -> str:
            last = request.messages[-1].content
            return str(next(left)) if "how many you give" in last else "nobody"

        assert beside(env, plan, ScriptedPolicy(reply))[0] * 160 == pytest.approx(response.pay)


# -- measures -------------------------------------------------------------------------------------
def test_measures_by_hand():
    env = goods(talk=1)
    assert measured_of(env, plans(env, SHARER)) == {
        "survival": None,
        "efficiency": pytest.approx(1.0),
        "gini": pytest.approx(0.0),
        "over_use": 0.0,
        "tipping": None,
    }
    assert measured_of(env, plans(env, GRABBER)) == {
        "survival": None,
        "efficiency": pytest.approx(100 / 160),
        "gini": pytest.approx(0.0),
        "over_use": 1.0,
        "tipping": 1.0,
    }
    # One has 22 of a round, three have 12: differences of 10 between it and each, over 2 * 4 * 58.
    mixed = measured_of(env, plans(env, GRABBER, *(SHARER,) * 3))
    assert mixed["gini"] == pytest.approx(2 * 3 * 10 / (2 * 4 * 58))
    assert (mixed["over_use"], mixed["tipping"]) == (0.25, None)
    # Who gives 9 makes three grim ones give nothing from round 2 on.
    grim = measured_of(env, {**plans(env, GRIM), "citizen_0": saying("9")})
    assert (grim["tipping"], grim["over_use"]) == (2.0, (1 + 9 * 4) / 40)


# -- tasks ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kwargs", [{}, {"n_agents": 2}, {"n_agents": 8}, {"choose": True, "turns": 30}]
)
def test_splits_are_disjoint_and_begin_with_ten_units(kwargs: dict[str, Any]):
    seen = {
        split: {key_of(**task.data) for task in make(ENV, split=split, **kwargs).source}
        for split in ("train", "val", "test", "ood")
    }
    for a, b in product(seen, repeat=2):
        assert a == b or not seen[a] & seen[b]
    assert dict(make(ENV, **kwargs).source[0].data) == {"endowment": 10, "factor": 1.6}
    assert min(map(len, seen.values())) >= 15


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"endowment": 0}, "endowment"),
        ({"endowment": 10.0}, "endowment"),
        ({"endowment": True}, "endowment"),
        ({"endowment": 1001}, "endowment"),
        ({"factor": 1}, "factor"),
        ({"factor": 4}, "factor"),
        ({"factor": "2"}, "factor"),
        ({"factor": True}, "factor"),
        ({"factor": float("nan")}, "factor"),
        ({"factor": 1.23456}, "factor"),
    ],
)
def test_rows_that_are_no_public_good_are_refused(row: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=match):
        make(ENV, tasks=[row], split="all")


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"n_agents": 1}, "n_agents"),
        ({"n_agents": 9}, "n_agents"),
        ({"n_agents": 5, "choose": True, "turns": 3}, "n_agents"),
        ({"end": 0.6}, "end"),
        ({"turns": 1, "punish": True}, "turns"),
        ({"turns": 4, "talk": 1, "punish": True}, "turns"),
        ({"turns": 4, "talk": 0, "choose": True, "punish": True}, "turns"),
        ({"tasks": [{"factor": 2.5}], "split": "all", "choose": True, "turns": 3}, "factor"),
    ],
)
def test_arguments_that_make_no_game_are_refused(kwargs: dict[str, Any], match: str):
    with pytest.raises(ValueError, match=match):
        make(ENV, **kwargs)


# -- the page -------------------------------------------------------------------------------------
def row(name: str, numbers: Sequence[float], digits: int = 1) -> str:
    return f"| {name} | {' | '.join(f'{number:.{digits}f}' for number in numbers)} |"


def scripts_table(form: str, step: int = 1) -> str:
    rules, names = rules_of(form), PLANS if form == "punish" else PLANS[:-1]
    table = [
        [meeting(rules, [Script(own), *[Script(other)] * 3])[0] for other in names] for own in names
    ]
    table += [[best_response(rules, [Script(other)] * 3, step).pay for other in names]]
    head = [f"| seat | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    rows = [row(name, line) for name, line in zip((*names, "best response"), table, strict=True)]
    return "\n".join([*head, *rows])


def motives_table() -> str:
    rows = []
    for keeps in (SHARER, GRIM, FOLLOWER, PUNISHER):
        cells = []
        for form in FORMS:
            if keeps == PUNISHER and form != "punish":
                cells.append("")
                continue
            rules = rules_of(form)
            motives = dilemma(
                lambda names, at=rules: meeting(at, [*map(Script, names)]), 4, keeps, GRABBER
            )
            cells.append(f"{motives.greed:.1f}, {motives.fear:.1f}")
        rows.append(f"| {keeps} | {' | '.join(cells)} |")
    return "\n".join(rows)


def late(request: Any) -> str:
    """Gives everything, and nothing in the last round."""
    return "0" if "Round 10 of 10" in request.messages[-1].content else "10"


GIVES: dict[str, Policy] = {
    "none, `-5`, `2.5`, two amounts": saying(""),
    "`0`": saying("0"),
    "`0` after the promise of 10": saying("0", talk="I give 10."),
    "`10` in talk, then no amount": saying("", talk="10"),
    "`5`": saying("5"),
    "`10`": saying("10"),
    "`1000000000`": saying("1000000000"),
    "`10`, and `0` in the last round": ScriptedPolicy(late),
}
FINES: dict[str, Policy] = {
    "`0`, `nobody`": saying("0"),
    "`10`, `nobody`": saying("10"),
    "`10`, `citizen_1 1`": saying("10", punish="citizen_1 1"),
    "`10`, `citizen_1 1000000000`": saying("10", punish="citizen_1 1000000000"),
    "`0`, `citizen_1 1000000000`": saying("0", punish="citizen_1 1000000000"),
    "`10`, itself, nobody there is, one twice": saying("10", punish="citizen_0 3"),
    "no amount, `citizen_1 3`": saying("", punish="citizen_1 3"),
}
WISHES: dict[str, Policy] = {
    "`0`, `anybody`": saying("0"),
    "`10`, `anybody`": saying("10"),
    "`10`, itself, nobody there is, one twice": saying("10", "citizen_0"),
    "`10`, `citizen_1`": saying("10", "citizen_1"),
    "`10` or `0`, `nobody`": saying("10", "nobody"),
    "no amount, `anybody`": saying(""),
}


def attacks_table(form: str, texts: Mapping[str, Policy], seeds: int = 1) -> str:
    env = goods(talk=1, **FORMS[form])
    names = env.experts().fixed
    who = (f"beside {'grim one' if name == GRIM else name}s" for name in names)
    rows = [f"| texts of one seat | {' | '.join(who)} |"]
    rows += ["|---" * (len(names) + 1) + "|"]
    for text, policy in texts.items():
        cells = []
        for others in names:
            paid = [beside(env, others, policy, seed) for seed in range(seeds)]
            own, other = mean(pays[0] for pays in paid), mean(mean(pays[1:]) for pays in paid)
            cells.append(f"{round(own, 9):.3f} ({round(other, 9):.3f})")
        rows.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(rows)


def bounds_sentence() -> str:
    env = make(ENV, split="test")
    bounds = [env.bounds(task) for task in env.source]
    means = (mean(getattr(known, name) for known in bounds) for name in ("random", "solo", "team"))
    random, solo, team = means
    assert random < 1 > solo
    return f"{random:.3f} (random), {solo:.3f} and {team:.0f}"


TABLES: dict[str, Callable[[], str]] = {
    "TESTBOUNDS": bounds_sentence,
    "USUAL": lambda: scripts_table("plain"),
    "PUNISH": lambda: scripts_table("punish"),
    "CHOOSE": lambda: scripts_table("choose", step=2),  # as every amount, in a tenth of the time
    "MOTIVES": motives_table,
    "ATTACKS": lambda: attacks_table("plain", GIVES),
    "FINES": lambda: attacks_table("punish", FINES),
    "WISHES": lambda: attacks_table("choose", WISHES, seeds=10),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_pages_tables(name: str):
    assert TABLES[name]() in PAGE


def test_the_pages_landscape():
    forms = (rules_of("plain"), rules_of("choose"))
    for name, known in {
        "social optimum, a seat": optimum,
        "equilibrium: nobody gives": equilibrium,
        "amounts at random": at_random,
        "one gives everything, the others 0, mean over seats": alone,
        "who gives nothing beside those who give everything": most,
    }.items():
        assert row(name, [known(rules) for rules in forms]) in PAGE


def test_the_pages_equilibria_among_scripts():
    for form in FORMS:
        names = PLANS if form == "punish" else PLANS[:-1]
        rules = rules_of(form)
        pays = pays_of(lambda joint, at=rules: meeting(at, [*map(Script, joint)]), names, 4)
        stable = pure_equilibria(pays)
        everybody = {name: (names.index(name),) * 4 in stable for name in names}
        assert everybody == {name: name != SHARER for name in names}
        if form == "punish":
            assert tuple(map(names.index, (SHARER, SHARER, PUNISHER, PUNISHER))) in stable


def test_the_pages_collusion_and_measures():
    env = goods(talk=1, punish=True)
    team = dict.fromkeys(env.possible_agents, saying("10", punish=f"citizen_0 {10**9}"))
    for give, own, other in (("10", 0.5, 0.5), ("0", 0.6875, 0.375)):
        paid = returns(env, {**team, "citizen_0": saying(give)})
        assert paid == pytest.approx([own, *[other] * 3])
    assert "0.500 where it gives everything (they have 0.500), 0.688 where it gives" in PAGE
    env = goods()
    teams = [(SHARER,), (GRABBER,), (GRABBER, SHARER, SHARER, SHARER)]
    measures = [measured_of(env, plans(env, *names)) for names in teams]
    for name, measure in {
        "efficiency": "efficiency",
        "Gini coefficient": "gini",
        "over-use": "over_use",
    }.items():
        assert row(name, [values[measure] or 0.0 for values in measures], 3) in PAGE
