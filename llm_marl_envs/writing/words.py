"""Text as words and sentences: the one reading that every rule of the writing tasks uses.

Owns normalisation, so that look-alike forms and invisible characters cannot change what a rule
sees, and the lists of English words without content of their own.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# A point inside a number or an abbreviation ends no sentence; a line end always does.
_END = re.compile(r"[.!?]+(?=[\s\"')\]]|$)|[;\u2026]|[\n\r\u2028\u2029]\s*|(?<=\w)\.(?=[A-Z][a-z])")
# Words and phrases in one character; their letters are up to 18.
_PHRASES = re.compile("[\u321d\u321e\u3300-\u3357\u337f\u33ae\u33af\ufdf0-\ufdfc]")
_FIRST_LETTERS = {
    code: unicodedata.normalize("NFKC", chr(code))[0]
    for code in range(0x3200, 0xFE00)
    if _PHRASES.match(chr(code))
}
# Long rows of marks, which are sorted at a cost that grows with the square of their number.
_MARKS = re.compile(r"([^\w\s\x00-\x7f]{32})[^\w\s\x00-\x7f]+")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _set("""
    a about after again all also am an and any are as at be because been before being both but by
    can could did do does doing down during each few for from further get got had has have having
    he her here hers him his how i if in into is it its just let may me might more most must my no
    nor not now of off on once one only or other our out over own per same she should so some such
    than that the their them then there these they this those through to too under until up us
    very was we were what when where which while who whom why will with within without would yet
    you your i'm i've it's don't didn't can't won't isn't wasn't doesn't couldn't
""")
"""English words that say nothing by themselves."""

NEGATORS = _set("""
    not no never none nobody nothing neither nor without cannot refuse refused refuses fail failed
    fails deny denied denies denying false untrue wrong wrongly doubt doubts unlikely hardly
    barely stopped lie lied lies myth incorrect incorrectly falsely
""")
"""Words that turn a statement round. Two of them cancel out."""

HEDGES = _set("""
    might may maybe perhaps possibly could would should if whether unless supposedly allegedly
    either or
""")
"""Words after which nothing is stated."""


CONNECTIVES = _set("""
    accordingly additionally addition also although and because besides but consequently despite
    finally furthermore hence however indeed instead likewise meanwhile moreover nevertheless next
    nonetheless otherwise overall similarly since so still subsequently then therefore though thus
    unless whereas while yet
""")
"""Words that connect statements and state nothing."""


def clean(text: str) -> str:
    """`text` in compatibility form, without invisible format characters, quotes made plain.

    Of a word in one character, as Arabic has some, one letter is left, and of a row of signs 32:
    a short text must not become a long one.
    """
    if text.isascii():
        return text
    if _PHRASES.search(text):
        text = text.translate(_FIRST_LETTERS)
    text = _MARKS.sub(r"\1", text)
    plain = unicodedata.normalize("NFKC", text).replace("\u2019", "'").replace("\u2018", "'")
    if plain.isascii():
        return plain
    unseen = [ord(c) for c in set(plain) if unicodedata.category(c) in ("Cf", "Mn", "Cs")]
    return plain.translate(dict.fromkeys(unseen)) if unseen else plain


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, in order; numbers are words, punctuation is not."""
    return _WORD.findall(clean(text).lower())


def sentences_of(text: str) -> list[str]:
    """The sentences of a text with their punctuation, cleaned, none of them empty of words.

    Sentences end at full stops, question and exclamation marks, semicolons and line ends.
    """
    found: list[str] = []
    start = 0
    plain = clean(text)
    word = _WORD.search(plain)
    for match in _END.finditer(plain):
        if word is None:
            break
        end = match.end()
        if word.start() < end:
            found.append(plain[start:end].strip())
            word = _WORD.search(plain, end)
        start = end
    if word is not None:
        found.append(plain[start:].strip())
    return found


def is_negator(word: str) -> bool:
    """Whether a lower-case word turns a statement round: "not", "never", "didn't" ..."""
    return word in NEGATORS or word.endswith("n't") or word == "didnt"


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A crude stem: lower-case forms of one English word mostly share it.

    >>> stem("helped"), stem("helping"), stem("took"), stem("taken")
    ('help', 'help', 'tak', 'tak')
    """
    if word.endswith("'s"):
        word = word[:-2]
    word = _IRREGULAR.get(word, word)
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return word
    for ending, left in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(left) >= 3:
            word = word[: len(word) - len(ending)] + left
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == "e" else word


def is_irregular(word: str) -> bool:
    """Whether a lower-case word is a listed form of an irregular verb: "took", "taken"."""
    return word in _IRREGULAR


def is_verb_form(word: str) -> bool:
    """Whether a lower-case word could be a conjugated verb, by its form."""
    return word in _IRREGULAR or word.endswith(("ed", "s", "ing"))


_IRREGULAR = {
    form: line.split()[0]
    for line in """
        become became; begin began begun; blow blew blown; break broke broken; bring brought;
        build built; buy bought; catch caught; choose chose chosen; come came; cost costs; cut cuts;
        draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen;
        feel felt; fight fought; find found; fly flew flown; forget forgot forgotten;
        forgive forgave forgiven; freeze froze frozen; give gave given; go went gone goes;
        grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept;
        know knew known; lead led; leave left; lend lent; lie lied lies lying; lose lost;
        make made; mean meant; meet met; pay paid; ride rode ridden; ring rang rung; rise rose
        risen; run ran; say said says; see saw seen; sell sold; send sent; shake shook shaken;
        show shown; sing sang sung; sleep slept; speak spoke spoken; spend spent; stand stood;
        steal stole stolen; take took taken; teach taught; tell told; think thought;
        throw threw thrown; wake woke woken; wear wore worn; win won;
        write wrote written
    """.replace("\n", " ").split(";")
    for form in line.split()[1:]
}

_ENDINGS = (
    ("ations", "at"),
    ("ation", "at"),
    ("ingly", ""),
    ("ments", ""),
    ("ment", ""),
    ("ness", ""),
    ("sses", "ss"),
    ("ies", "y"),
    ("ied", "y"),
    ("ing", ""),
    ("edly", ""),
    ("ers", ""),
    ("ed", ""),
    ("er", ""),
    ("ly", ""),
    ("es", ""),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("s", ""),
)


def content_of(words: list[str]) -> list[str]:
    """Stems of the words that are no stop words, in order."""
    return [stem(word) for word in words if word not in STOP_WORDS]
