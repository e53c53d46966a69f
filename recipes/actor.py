"""Supervised fine-tuning of the actor (MCTS-KBQA, appendix A.4).

It is recipes/sft.py with other data: dialogues of the interactive protocol, of which thought and action are trained and
observations, the user's turns, are read. What Table 10 sets is in the YAML beside this file.

On a CPU, in minutes:  accelerate launch recipes/actor.py
On several GPUs:       accelerate launch --config_file launch/accelerate/zero3.yaml recipes/actor.py --config FILE.yaml
"""

import runpy
from pathlib import Path

from graphwalker.train import session

HERE = Path(__file__).parent


def main() -> None:
    runpy.run_path(str(HERE / "sft.py"))["main"](HERE / "actor" / "tiny_demo.yaml")


if __name__ == "__main__":
    session.run(main)
