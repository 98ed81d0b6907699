"""What a text states about the entities of a lexicon: sentences -> claims.

Owns the reading of English sentences with subject, verb and object: active and passive voice,
negation, lists, shared subjects, relative clauses. It reads a closed language: the words of the
lexicon, labels of the outline before a colon, and the small words below. A "not" or a "did" stands
before its verb. A sentence with anything else in it ("The liar said that ...", "Maybe ...", "never,
never", a question) states nothing, and the text is not `closed`: nobody can tell what that does to
the rest. It knows no document, so it cannot tell what is true.

>>> from llm_marl_envs.envs.writing.vocabulary import POST_LEXICON
>>> read_claims("Tom was not blamed by Mia.", POST_LEXICON).claims
(Fact(subject='mia', relation='blame', object='tom', holds=False),)
>>> read_claims("The liar said that Mia blamed Tom.", POST_LEXICON).claims
()
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from llm_marl_envs.envs.writing.documents import Fact
from llm_marl_envs.envs.writing.vocabulary import Lexicon
from llm_marl_envs.envs.writing.words import clean, sentences_of, words_of

MAX_WORDS = 400
"""Words of one text that are read; nobody is paid for texts of this length."""

MAX_LISTED = 8
"""Subjects or objects of one verb; longer lists state nothing."""

SUBJECT_GAP, OBJECT_GAP = 6, 5
"""Most words between a subject and its verb, and between a verb and its object."""

_PIECE = re.compile(r"[^\W_]+(?:'[^\W_]+)*|,|:|-{2,}|\u2014|\u2013")
# Marks of a list, and of bold words.
_ITEM = re.compile(r"^[ \t]*(?:[-*\u2022]|[0-9]{1,2}[.)])[ \t]+|\*", re.MULTILINE)
# Quotation marks, single ones too, brackets, "?" ...
_UNKNOWN = re.compile(r"[^\w\s',:.;!\u2026\u2013\u2014-]|_|(?<!\w)'|'(?!\w)")
_OVERLAY = 1  # Unicode's class of such marks

_DASHES = {"--", "\u2014", "\u2013"}
_JOINTS = {"and", "but", "then", "while", "because", "after", "before", "when", "since"}
_JOINTS |= {"although", "though"}
_BREAKS = {",", ":", *_DASHES, *_JOINTS}
_OPENERS = {"also", "so", "however", "moreover", "furthermore", "therefore", "thus", "meanwhile"}
_OPENERS |= {"finally", "additionally", "later", "next", "first", "second", "third"}
_BE = {"is", "are", "was", "were", "be", "been", "being", "got", "gets", "get"}
_HAVE = {"has", "have", "had"}
_DO = {"do", "does", "did"}
_NOT = {"not", "never", "didnt", *(f"{verb}n't" for verb in (*_DO, *_HAVE, "is", "are", "was"))}
_NOT |= {"weren't"}
_UNWILLING = {"refuse", "refuses", "refused", "fail", "fails", "failed"}  # before "to"
_NEGATORS = _NOT | _UNWILLING
_WHO = {"who", "which", "that"}
_ARTICLES = {"the", "a", "an"}
_HELPERS = _BE | _HAVE | _DO
_LEADING = _HELPERS | _NEGATORS  # stand before a verb
_PAUSES = _OPENERS | {","}
_CHAIN = _LEADING | _PAUSES | {"to"}  # between a helper or a "not" and its verb
SMALL = _BREAKS | _OPENERS | _BE | _HAVE | _DO | _NEGATORS | _WHO | _ARTICLES | {"by", "to"}
"""Words and signs that are read beside those of the lexicon."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text states.

    Attributes:
        claims: the facts it states, in order, repeats included.
        words: how many words it has, at most `MAX_WORDS`.
        stating_words: how many of them stand in sentences that state something.
        verbs: how many verbs of the lexicon it has.
        stating_verbs: how many of them have a subject and an object that could be read.
        closed: whether every sentence is of words and forms that are known here, and none that
            states nothing holds a "not". Else the text may take back what its sentences state.
    """

    claims: tuple[Fact, ...]
    words: int
    stating_words: int
    verbs: int
    stating_verbs: int
    closed: bool


def read_claims(text: str, lexicon: Lexicon) -> Reading:
    """What `text` states about the entities of `lexicon`. Any text can be read."""
    claims: list[Fact] = []
    total = stating = verbs = stating_verbs = 0
    plain = _ITEM.sub("", clean(text))
    closed = not (_UNKNOWN.search(plain) or _is_struck(text))
    for sentence in sentences_of(plain):
        words = words_of(sentence)
        total += len(words)
        if total > MAX_WORDS:
            total = MAX_WORDS
            break
        pieces = _pieces(sentence, lexicon)
        by_verb = _facts(pieces, lexicon) if pieces is not None else []
        facts = [fact for stated in by_verb for fact in stated]
        claims += facts
        verbs += sum(word in lexicon.forms for word in words)
        stating_verbs += sum(map(bool, by_verb))
        stating += len(words) * bool(facts)
        closed = closed and pieces is not None and bool(facts or _NEGATORS.isdisjoint(words))
    return Reading(tuple(claims), total, stating, verbs, stating_verbs, closed)


def _is_struck(text: str) -> bool:
    """Whether a letter is struck out by a mark over it; `clean` takes such marks away."""
    return not text.isascii() and any(unicodedata.combining(sign) == _OVERLAY for sign in text)


def _pieces(sentence: str, lexicon: Lexicon) -> list[str] | None:
    """Words, commas, colons and dashes of a sentence; None where anything in it is unknown."""
    if _UNKNOWN.search(sentence):
        return None
    pieces = _PIECE.findall(sentence.lower())
    for place, piece in enumerate(pieces):
        before = pieces[place - 1] if place else ""
        if piece == ":":
            allowed = before in lexicon.labels
        elif piece == "to":
            allowed = before in _UNWILLING
        elif piece in lexicon.labels and pieces[place + 1 : place + 2] == [":"]:
            allowed = True
        else:
            allowed = piece in SMALL or piece in lexicon.entities or piece in lexicon.forms
        if not allowed:
            return None
    return pieces if _has_known_form(pieces, lexicon) else None


def _has_known_form(pieces: Sequence[str], lexicon: Lexicon) -> bool:
    """Whether each helper and each "not" stands before a verb, in a way that has one reading.

    Behind the last verb "but not Leo" is known too. Not known are "Did Mia pay Tom", "Mia never,
    never paid Tom", "Mia paid Tom, but never", "Never, that Mia paid Tom", "Mia did not pay Tom and
    help Leo".
    """
    verbs = [i for i, piece in enumerate(pieces) if piece in lexicon.forms]
    for place, piece in enumerate(pieces):
        named = next((p for p in pieces[place + 1 :] if p not in _ARTICLES), "")
        if piece in _WHO and named in lexicon.entities:
            return False  # "Omar warned Nina, that Paul invited Vera": nobody says that he did
        if piece not in _LEADING:
            continue
        after = next((p for p in pieces[place + 1 :] if p not in _CHAIN), "")
        listed = piece in _NOT and named in lexicon.entities and place > max(verbs, default=place)
        if after not in lexicon.forms and not (listed and pieces[place - 1] in _BREAKS):
            return False
        if piece in _UNWILLING and pieces[place + 1 : place + 2] != ["to"]:
            return False  # "Mia failed, then paid Tom"
    turned = False  # whether a verb before had a "not"
    for verb in verbs:
        start = _chain(pieces, verb)
        chain = pieces[start:verb]
        negators = [piece for piece in chain if piece in _NEGATORS]
        never_refused = len(negators) == 2 and negators[0] in _NOT and negators[1] in _UNWILLING
        if len(negators) > 1 and not never_refused:
            return False
        inherits = _PAUSES.issuperset(chain) and ("," in chain or pieces[start - 1] in _BREAKS)
        bare = pieces[verb] in lexicon.past or pieces[verb].endswith("ing")
        if turned and inherits and bare:
            return False
        turned = turned or bool(negators)
    return True


def _chain(pieces: Sequence[str], verb: int) -> int:
    """Where the helpers and "not"s of a verb begin."""
    start = verb
    while start and pieces[start - 1] in _CHAIN:
        start -= 1
    return start


def _facts(pieces: Sequence[str], lexicon: Lexicon) -> list[list[Fact]]:
    """The facts that each verb states, none for verbs without a subject or an object."""
    verbs = [i for i, piece in enumerate(pieces) if piece in lexicon.forms]
    by_verb: list[list[Fact]] = []
    subjects: tuple[int, ...] = ()
    start = 0
    for order, verb in enumerate(verbs):
        end = verbs[order + 1] if order + 1 < len(verbs) else len(pieces)
        own = _subjects(pieces, start, verb, lexicon)
        if own or not _inherits(pieces, start, verb, order):
            subjects = own
        last = order + 1 == len(verbs)
        objects, start = _objects(pieces, verb, end, last, lexicon)
        if not subjects:  # "the improved encoder reduces noise": the entity belongs to what follows
            start = verb + 1
            continue
        chain = pieces[_chain(pieces, verb) : verb]
        turned = sum(piece in _NEGATORS for piece in chain) == 1
        passive = _passive(chain, pieces[verb], lexicon)
        triples = [(subjects, verb, place) for place in objects]
        by_verb.append([f for t in triples for f in _stated(pieces, t, turned, passive, lexicon)])
    return by_verb


def _stated(
    pieces: Sequence[str],
    triple: tuple[tuple[int, ...], int, int],
    turned: bool,
    passive: bool | None,
    lexicon: Lexicon,
) -> list[Fact]:
    """The facts of subjects, verb and one object; none where the voice cannot be told."""
    subjects, verb, place = triple
    between = pieces[verb + 1 : place]
    by = "by" in between
    if passive is None or passive != by:
        return []
    holds = turned != _NEGATORS.isdisjoint(between)
    relation = lexicon.forms[pieces[verb]]
    pairs = [(pieces[subject], pieces[place]) for subject in subjects]
    if passive:
        pairs = [(doer, done_to) for done_to, doer in pairs]
    return [Fact(doer, relation, done_to, holds) for doer, done_to in pairs]


def _subjects(pieces: Sequence[str], start: int, verb: int, lexicon: Lexicon) -> tuple[int, ...]:
    """Places of the verb's subjects among `pieces[start:verb]`; empty where there are none."""
    places = [i for i in range(start, verb) if pieces[i] in lexicon.entities]
    if not places or verb - places[-1] > SUBJECT_GAP:
        return ()
    group = [places[-1]]
    joined = False
    for place in reversed(places[:-1]):
        between = [p for p in pieces[place + 1 : group[0]] if p not in _ARTICLES]
        joined = joined or "and" in between
        if not joined or not between or not set(between) <= {"and", ","}:
            break
        group.insert(0, place)
    if len(group) == 1 and len(places) > 1 and pieces[group[0] - 1] in lexicon.entities:
        return ()  # two names in a row are no grammar
    return tuple(group) if len(group) <= MAX_LISTED else ()


def _inherits(pieces: Sequence[str], start: int, verb: int, order: int) -> bool:
    """Whether a verb without a subject of its own shares that of the verb before."""
    between = pieces[start:verb]
    return order > 0 and any(piece in _BREAKS for piece in between)


def _objects(
    pieces: Sequence[str], verb: int, end: int, last: bool, lexicon: Lexicon
) -> tuple[list[int], int]:
    """Places of a verb's objects before `end`, and where the next verb's words begin."""
    places = [i for i in range(verb + 1, end) if pieces[i] in lexicon.entities]
    following = end
    if not last and places:
        helpers = [i for i in range(_chain(pieces, end), end) if pieces[i] not in _PAUSES]
        # "..., and Tom did not, however, follow Leo": its commas are no breaks
        breaks = [i for i in range(verb + 1, min([end, *helpers])) if pieces[i] in _BREAKS]
        if any(piece in _WHO for piece in pieces[places[-1] + 1 : end]):
            following = places[-1]  # "blamed Tom who called Bob": both of them need Tom
        elif breaks and breaks[-1] > places[0]:
            following = breaks[-1]
    objects: list[int] = []
    for place in places:
        if place > following:
            break
        between = [p for p in pieces[(objects or [verb])[-1] + 1 : place] if p not in _ARTICLES]
        if not objects:
            if len(between) > OBJECT_GAP or any(p in _BREAKS for p in between):
                break
        elif not between or not all(p in {"and", ",", "but", *_NEGATORS} for p in between):
            break
        objects.append(place)
    return (objects if len(objects) <= MAX_LISTED else []), following


def _passive(chain: Sequence[str], form: str, lexicon: Lexicon) -> bool | None:
    """Whether a verb behind its helpers is passive; None if its form is neither."""
    if form in lexicon.participles and not _BE.isdisjoint(chain):
        return True
    if form in lexicon.participles and form != lexicon.past[lexicon.forms[form]]:
        return None if _HAVE.isdisjoint(chain) else False
    return False
