"""The second of two processes: runs the command lines of a plan, one world after the other.

`python peer.py PLAN` reads a list of {"port": P, "words": [...]}; the test itself is the first process.
"""

import json
import os
import sys
from pathlib import Path

from reason.cli import main


def in_world(rank: int, port: int, words: list[str]) -> int:
    """`reason WORDS…` as process `rank` of two; the variables are those that torchrun sets."""
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in world.items()}
    try:
        return main(words)
    finally:
        for name in world:
            del os.environ[name]


if __name__ == "__main__":
    for plan in json.loads(Path(sys.argv[1]).read_text()):
        assert in_world(1, plan["port"], plan["words"]) == 0
