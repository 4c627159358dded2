"""A process of `torchrun`: `reason WORDS…`, which a signal meets on its way.

`torchrun … node.py SIGNAL STEP WORDS…`: at the first attempt rank 1 gets SIGNAL (0: none) when it is about to take the
optimizer step after STEP.
"""

import os
import sys

import torch
from peer import meets

from reason.cli import main

if __name__ == "__main__":
    signal, step, *words = sys.argv[1:]
    torch.set_num_threads(1)
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        meets(int(signal), int(step))
    sys.exit(main(words))
