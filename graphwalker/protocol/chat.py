"""How episodes become chat messages, and how a tokenizer learns to render and to parse them."""

from functools import cache
from typing import Any

from jinja2 import Template
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from graphwalker.errors import UserError
from graphwalker.protocol.prompts import Prompt, read_template
from graphwalker.types import Trajectory

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
TOOL_NAME = "kg_query"

# Maps what a model writes to a message: its raw query becomes the argument of the one tool, unparsed, so that a
# malformed one still reaches the environment and gets an observation.
RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": f"{TURN_START}assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*", "content": "text"},
        "tool_calls": {
            "open": "<kg-query>",
            "close_pattern": r"</kg-query>\s*",
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": TOOL_NAME, "arguments": {"query": "{content}"}}},
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}


def install(tokenizer: Any) -> None:
    """Give a `transformers` tokenizer the chat template and the response template of the protocol.

    The end-of-turn token becomes its end-of-sequence token: generation stops there, and training must see it.
    Raises `UserError` when the tokenizer lacks the turn tokens as single tokens.
    """
    vocabulary = tokenizer.get_vocab()
    missing = [token for token in (TURN_START, TURN_END) if token not in vocabulary]
    if missing:
        raise UserError(f"the tokenizer has no token {' or '.join(missing)}: add them and resize the embeddings first")
    tokenizer.chat_template = read_template("chatml.jinja")
    tokenizer.response_template = RESPONSE_TEMPLATE
    tokenizer.eos_token = TURN_END


def messages(trajectory: Trajectory, prompt: Prompt) -> list[dict[str, str]]:
    """The whole conversation: the user's message, then each turn and its observation, if it got one."""
    return prompt.messages(trajectory.question) + turn_messages(trajectory)


def turn_messages(trajectory: Trajectory) -> list[dict[str, str]]:
    """The turns and their observations; an answer ends the episode, so no observation follows it."""
    result = []
    for turn in trajectory.turns:
        result.append({"role": "assistant", "content": turn.text})
        if turn.observation:
            result.append({"role": "tool", "name": TOOL_NAME, "content": turn.observation})
    return result


def render(conversation: list[dict[str, str]]) -> str:
    """A conversation as the chat template writes it, without a tokenizer (which may have to be trained on it)."""
    return _template().render(messages=conversation, add_generation_prompt=False)


@cache
def _template() -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation])
    return environment.from_string(read_template("chatml.jinja"))


class _Generation(Extension):
    """Lets Jinja read the `generation` blocks that `transformers` uses to mark the trained text."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own interface)

    def parse(self, parser: Parser) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
