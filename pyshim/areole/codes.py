"""Standard codes and the words that people say for them: money, languages and countries.

Owns a short table. A code that it does not know has to be said as it is.
"""

from __future__ import annotations

_MONEY = """
USD dollar|dollars|buck|bucks|$; EUR euro|euros|€; GBP pound|pounds|sterling|quid|£; JPY yen|¥; CNY yuan|renminbi;
INR rupee|rupees|₹; CHF franc|francs; CAD canadian; AUD australian; MXN peso|pesos; BRL real|reais; KRW won|₩;
SEK krona|kronor; NOK norwegian; DKK danish; PLN zloty; CZK koruna; TRY lira; THB baht; ZAR rand; RUB rouble|ruble;
ILS shekel|shekels; SGD singapore; NZD zealand; HKD hong
"""
_LANGUAGES = """
EN english; FR french; DE german; ES spanish; IT italian; PT portuguese; NL dutch; SV swedish; PL polish; RU russian;
JA japanese; ZH chinese|mandarin; KO korean; AR arabic; HI hindi; TR turkish; EL greek; FI finnish; UK ukrainian;
HE hebrew; VI vietnamese; TH thai; CS czech; HU hungarian; RO romanian; ID indonesian
"""
_COUNTRIES = """
US usa|america|states; GB britain|england|uk; DE germany; FR france; ES spain; IT italy; PT portugal; NL
netherlands|holland; BE belgium; CH switzerland; AT austria; SE sweden; NO norway; DK denmark; FI finland; IE
ireland; PL poland; CZ czechia; HU hungary; RO romania; GR greece; TR turkey; UA ukraine; RU russia; CA canada; MX
mexico; BR brazil; AR argentina; CL chile; CO colombia; JP japan; CN china; KR korea; IN india; TH thailand; VN
vietnam; ID indonesia; AU australia; NZ zealand; ZA africa; EG egypt; IL israel; AE emirates; SG singapore
"""


def _read(*tables: str) -> dict[str, frozenset[str]]:
    out: dict[str, frozenset[str]] = {}
    for entry in ";".join(tables).replace("\n", " ").split(";"):
        code, words = entry.split()
        out[code.lower()] = out.get(code.lower(), frozenset()) | frozenset(words.split("|"))
    return out


WORDS = _read(_LANGUAGES, _COUNTRIES, _MONEY)


def said(code: str, folded: str, words: frozenset[str]) -> bool:
    """Whether a folded text with these words has a word or sign for the code."""
    known = WORDS.get(code.strip().lower())
    return known is not None and any(word in words or (not word.isalpha() and word in folded) for word in known)
