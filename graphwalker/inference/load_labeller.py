"""The labeller on the model that an engine already holds."""

from graphwalker.errors import UserError
from graphwalker.inference.engine import Engine
from graphwalker.inference.judging import reflection_ids
from graphwalker.inference.labels import Labeller
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.inference.transformers_labels import TransformersLabeller
from graphwalker.inference.vllm_engine import VLLMEngine
from graphwalker.inference.vllm_labels import VLLMLabeller, VLLMServerLabeller
from graphwalker.inference.vllm_server import VLLMServerEngine


def labeller_of(engine: Engine) -> Labeller:
    """What judges by the engine's model. Raises ``UserError`` for a checkpoint whose tokenizer lacks the reflection
    tokens or has them in another order."""
    reflection_ids(engine.tokenizer)
    if isinstance(engine, TransformersEngine):
        return TransformersLabeller(engine.model, engine.tokenizer, max_length=engine.max_length)
    if isinstance(engine, VLLMServerEngine):
        return VLLMServerLabeller(engine.server, engine.tokenizer, max_length=engine.max_length)
    if not isinstance(engine, VLLMEngine):
        raise UserError("this engine's model cannot give the probabilities of labels: use transformers, vllm or server")
    return VLLMLabeller(engine)
