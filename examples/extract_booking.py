"""A record out of a text, as a dataclass, while the event loop goes on.

python examples/extract_booking.py "Table for 4 at Luigi's, name Sam Carter"
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from areole import ExtractError, Needle


@dataclass
class Booking:
    """A table that somebody books at a restaurant.

    Args:
        restaurant: the restaurant's name
        guests: how many people come
        name: who books
    """

    restaurant: str
    guests: int
    name: str | None = None


async def main(text: str) -> None:
    with Needle() as needle:
        try:
            print(await needle.aextract(text, Booking))
        except ExtractError as error:
            print(f"{error.code}: {error.message}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Table for 4 at Luigi's, name Sam Carter"))
