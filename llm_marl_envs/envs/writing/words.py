"""Text as words and sentences: the one reading that every rule of the writing tasks uses.

Owns normalisation, so that look-alike forms and invisible characters cannot change what a rule
sees, and the lists of English words without content of their own.
"""

from __future__ import annotations

import re
import unicodedata

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
    sentences: list[str] = []
    start = 0
    plain = clean(text)
    word = _WORD.search(plain)
    for match in _END.finditer(plain):
        if word is None:
            break
        end = match.end()
        if word.start() < end:
            sentences.append(plain[start:end].strip())
            word = _WORD.search(plain, end)
        start = end
    if word is not None:
        sentences.append(plain[start:].strip())
    return sentences
