"""The token ids of an episode, from the one chat template: prompt, turns, observations.

What the model generated is never tokenised again: an episode is the prompt's ids, then for each turn
the generated ids and the ids of what follows them (the end of the turn where it is missing, the
observation, the next assistant header). Special tokens bound every piece, so the concatenation equals
the template rendered as a whole.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Literal

from graphwalker.protocol.chat import observation_message

Role = Literal["tool", "user", "inline"]
MARK = "\ue000"  # a private-use character that no template contains


class ChatTokens:
    """Renders and tokenises with a tokenizer whose ``chat_template`` is ours (``protocol.chat.install``).

    ``role`` is that of the observations: ``tool``, ``user`` for messages that begin with ``Observation: ``, or
    ``inline`` for text within the model's own message.
    """

    def __init__(self, tokenizer, role: Role = "tool"):
        self.tokenizer, self.role = tokenizer, role
        # the samples of one state mostly see the same
        self._observed: Callable[[str], tuple[int, ...]] = lru_cache(maxsize=1024)(self._observation)

    def prompt(self, messages: Sequence[dict]) -> list[int]:
        """Ids of the messages and the assistant header."""
        return self._ids(self._render(list(messages), add_generation_prompt=True))

    def observation(self, text: str, *, stopped: bool = True) -> list[int]:
        """Ids between a turn's last token and the next turn's first.

        ``stopped`` is False when the turn was cut before its end-of-turn token, which is then put in, unless the
        observation stands in the midst of a message.
        """
        return [*([] if stopped or self.role == "inline" else [self.end_of_turn]), *self._observed(text)]

    def _observation(self, text: str) -> tuple[int, ...]:
        if self.role == "inline":
            return tuple(self.text(text))
        before, after = self._around
        return tuple(self._ids(before + text + after))

    def text(self, text: str) -> list[int]:
        """Ids of a text within a message."""
        return self._ids(text)

    @cached_property
    def end_of_turn(self) -> int:
        return self.tokenizer.eos_token_id

    @cached_property
    def _around(self) -> tuple[str, str]:
        """What the template puts around an observation, after the end-of-turn token."""
        asked = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        text = self._render([*asked, observation_message(MARK, self.role)], add_generation_prompt=True)
        end = self.tokenizer.eos_token
        head = self._render(asked, add_generation_prompt=False)
        prefix = head[: head.rindex(end) + len(end)]
        if not text.startswith(prefix):
            raise ValueError("the chat template renders a turn differently once an observation follows it")
        before, after = text[len(prefix) :].split(MARK)
        return before, after

    def _render(self, messages: list[dict], *, add_generation_prompt: bool) -> str:
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]
