"""From a finished turn's tokens to its text, and from an observation to the tokens of it that fit."""

from typing import Any

from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Completion, Engine, Sampling
from graphwalker.protocol.prompts import final_answer

CUT_NOTE = "... (observation cut: no room for the rest)"


def turn_text(tokenizer: Any, done: Completion) -> str:
    """What the model wrote, without the token that ends its message; another one at which it stopped stays."""
    ids = done.ids[:-1] if done.stopped and done.ids[-1] == tokenizer.eos_token_id else done.ids
    # some tokenizers take the space before a full stop away when they decode; a name may have one
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def room_for(engine: Engine, taken: int, sampling: Sampling, max_tokens: int) -> int:
    """The tokens an observation may take in a row that holds ``taken``: some are kept for the turn that follows."""
    reserve = min(sampling.max_new_tokens, engine.max_length // 8)
    return min(engine.max_length - taken - reserve, max_tokens)


def fit(observation: str, chat: ChatTokens, limit: int, *, stopped: bool) -> tuple[str, list[int]]:
    """What is shown of an observation in at most ``limit`` tokens, and its ids; ("", []) where nothing fits.

    An overlong one is the longest run of whole lines that fits with a note; the line that asks for the final answer
    stays. ``stopped`` as in `ChatTokens.observation`.
    """
    ids = chat.observation(observation, stopped=stopped)
    if len(ids) <= limit:
        return observation, ids
    lines = observation.split("\n")
    end = [CUT_NOTE]
    if lines[-1] == final_answer():
        end.append(lines.pop())
    low, high = 0, len(lines)
    best: tuple[str, list[int]] = ("", [])
    while low <= high:
        middle = (low + high) // 2
        text = "\n".join(lines[:middle] + end)
        ids = chat.observation(text, stopped=stopped)
        if len(ids) <= limit:
            best, low = (text, ids), middle + 1
        else:
            high = middle - 1
    return best
