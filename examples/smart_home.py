"""Functions as tools: the model picks them and fills their arguments, `run` calls them and gives the results back.

    python examples/smart_home.py "turn the kitchen lights to 40 percent"

The weights are those that `areole ask` takes: $AREOLE_MODEL, or the cache that build.py fills.
"""

from __future__ import annotations

import json
import sys
from enum import Enum
from typing import Annotated

from areole import Field, Needle


class Mode(Enum):
    ECO = "eco"
    COMFORT = "comfort"


def set_lights(room: str, brightness: Annotated[int, Field(ge=0, le=100)]) -> dict[str, object]:
    """Set the lights of a room.

    Args:
        room: the room's name
        brightness: in percent
    """
    return {"room": room, "brightness": brightness}


def set_heating(mode: Mode) -> dict[str, object]:
    """Choose how the heating works.

    Args:
        mode: eco saves energy, comfort keeps it warm
    """
    return {"heating": mode.name}


def main(request: str) -> None:
    with Needle(tools=[set_lights, set_heating]) as needle:
        result = needle.run(request)
    for ran in result.ran:
        print(f"{ran.call.name}({json.dumps(ran.call.arguments)}) -> {ran.reported()}")
    print(result.text or result.result.reasoning or "")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "turn the kitchen lights to 40 percent")
