"""The health of GRPO's groups: a group whose episodes all fared alike teaches nothing.

Its advantages are all 0. Which kind of dead it is says what to do about it: questions that are too hard, too easy, or a
graph that does not answer.
"""

import torch

ALIVE, RIGHT, WRONG, OUTAGE = "alive", "all_right", "all_wrong", "outage"
KINDS = (ALIVE, RIGHT, WRONG, OUTAGE)
SAME = 1e-6  # rewards closer than this are equal


def group_kinds(rewards: torch.Tensor, size: int, full: float) -> list[str]:
    """The kind of each group of ``size`` episodes that stand side by side.

    ``rewards`` (N, R) are weighted; a row of NaN is an episode that cannot be scored. A group is alive when one of the
    R columns tells two of its episodes apart. It is out by outage when fewer than two can be scored. Otherwise it is
    all right when its episodes got more than half of ``full``, the most an episode can get, and else all wrong.
    """
    return [_kind(group, full) for group in rewards.split(size)]


def _kind(group: torch.Tensor, full: float) -> str:
    scored = group[~group.isnan().all(dim=1)].nan_to_num(0.0)
    if len(scored) < min(2, len(group)):
        return OUTAGE
    if bool((scored.amax(dim=0) - scored.amin(dim=0) > SAME).any()):
        return ALIVE
    return RIGHT if float(scored[0].sum()) > full / 2 else WRONG
