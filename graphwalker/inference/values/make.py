"""Values by name. Whatever needs a model loads it only here, when it is asked for."""

from collections.abc import Callable, Sequence
from typing import Any

from graphwalker.errors import UserError
from graphwalker.inference.values.configs import VALUES, ValueConfig
from graphwalker.rewards import f1
from graphwalker.search.node import Node, question_of
from graphwalker.search.requests import Value


def make_value(name: str, config: ValueConfig) -> Value:
    """The value function of a name (`VALUES`), its model loaded.

    Raises ``UserError`` for an unknown name, for one that needs a model where ``value_model`` names none, and where
    that cannot be loaded or its server does not answer.
    """
    if name not in _MAKERS:
        raise UserError(f"value: expected one of {', '.join(VALUES)}, got {name!r}")
    return _MAKERS[name](config)


def terminal_f1(nodes: Sequence[Node]) -> list[float]:
    """The F1 of each terminal state's answer against gold, 0 for others.

    The "true reward" that section 4.8 backs up in Classic MCTS to measure other values by; a search that decides by it
    knows the answers.
    """
    return [f1(node.answer or (), question_of(node).answers) if node.terminal else 0.0 for node in nodes]


def load_scorer(config: ValueConfig, *, protocol: bool = False) -> Any:
    """The `Scorer` of a config. ``protocol``: the model was trained by us, so its tokenizer gets the chat template."""
    from graphwalker.inference import load

    path = _model(config)
    if config.value_backend == "openai":
        raise UserError("value_backend: openai gives no log-probabilities of a prompt; use it with the value cot")
    tokenizer = (load.load_tokenizer if protocol else load.read_tokenizer)(path)
    settings = load.read_config(path)
    if config.value_backend == "server":
        from graphwalker.inference.values.vllm_scorer import VLLMServerScorer
        from graphwalker.inference.vllm_http import VLLMServer, serve_command, server_url

        if config.value_url is None:
            raise UserError("value_url is missing: the backend server needs its address")
        command = serve_command(path, server_url(config.value_url), config.value_length + 1)
        server = VLLMServer(config.value_url, command)
        return VLLMServerScorer(server, tokenizer, config=settings, max_length=config.value_length)
    if config.value_backend == "vllm":
        from graphwalker.inference.values.vllm_scorer import VLLMScorer
        from graphwalker.inference.vllm_engine import load_llm

        llm = load_llm(
            path,
            len(tokenizer),
            max_length=config.value_length + 1,
            dtype=config.value_dtype,
            memory=config.value_memory,
        )
        return VLLMScorer(llm, tokenizer)
    import torch

    from graphwalker.inference.values.transformers_scorer import TransformersScorer

    capped = getattr(settings, "attn_logit_softcapping", None)
    # transformers' other implementations leave the cap out without a word
    model = load.load_model(path, tokenizer, config.value_dtype, "eager" if capped else None).eval()
    if torch.accelerator.is_available():
        model.to(torch.accelerator.current_accelerator())
    return TransformersScorer(model, tokenizer, max_length=config.value_length, pass_tokens=config.value_pass_tokens)


def _constant(config: ValueConfig) -> Value:
    return lambda nodes: [config.value_constant] * len(nodes)


def _gain(config: ValueConfig, proxy: bool = False) -> Value:
    from graphwalker.inference.values.information_gain import InformationGain

    return InformationGain(load_scorer(config), alpha=config.value_alpha, beta=config.value_beta, proxy=proxy)


def _proxy(config: ValueConfig) -> Value:
    return _gain(config, proxy=True)


def _logic_form(config: ValueConfig) -> Value:
    from graphwalker.inference.values.logic_form import LogicForm

    return LogicForm(load_scorer(config, protocol=True))


def _chain_of_thought(config: ValueConfig) -> Value:
    from graphwalker.inference.values.chain_of_thought import ChainOfThought, EngineJudge, Judge, ServerJudge

    judge: Judge
    if config.value_backend == "openai":
        from graphwalker.tools.chat_server import ChatServer

        if config.value_url is None:
            raise UserError("value_url is missing: the backend openai needs its address")
        server = ChatServer(config.value_url, _model(config), who="judge", cache=config.value_cache)
        server.check()
        judge = ServerJudge(server, config.value_reply_tokens, config.value_rows)
    else:
        from graphwalker.inference.load import load_engine

        engine = load_engine(
            _model(config),
            backend=config.value_backend,
            capacity=config.value_rows,
            max_length=config.value_length,
            dtype=config.value_dtype,
            url=config.value_url,
        )
        judge = EngineJudge(engine, config.value_reply_tokens)
    return ChainOfThought(judge, alpha=config.value_alpha)


def _model(config: ValueConfig) -> str:
    if not config.value_model:
        raise UserError("value_model is missing: name the model that values states")
    return config.value_model


_MAKERS: dict[str, Callable[[ValueConfig], Value]] = {
    "constant": _constant,
    "ig": _gain,
    "ig_proxy": _proxy,
    "cot": _chain_of_thought,
    "logic_form": _logic_form,
    "f1": lambda config: terminal_f1,
}
