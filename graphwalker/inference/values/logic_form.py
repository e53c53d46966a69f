"""The logic-form model: a language model fine-tuned to write a question's SPARQL scores the SPARQL of a state.

MCTS-KBQA, appendix A.2: ``R(S' | Q) = log pi(S' | Q)`` (Eq. 13), with pi trained on gold pairs (Eq. 12;
``data_pipelines.logic_forms`` and ``recipes/sft.py`` with ``prompt: logic_form``).
"""

from collections import Counter
from collections.abc import Sequence

from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.values.scorer import Scorer
from graphwalker.kg.sparql_tokens import one_line
from graphwalker.protocol.prompts import Prompt
from graphwalker.search.node import Node, question_of
from graphwalker.types import Question


class LogicForm:
    """A value function: ``log pi(S' | Q)``, at most 0, of the SPARQL that a state's episode executed last.

    ``S'`` ends with the end of the turn, as in training. A state that has executed none scores the empty ``S'``: what
    the model gives to writing nothing, which is little; this value is made for terminal states (appendix A.3). A logic
    form for which the model has no room is cut.
    """

    def __init__(self, scorer: Scorer):
        self.scorer, self.chat, self.prompt = scorer, ChatTokens(scorer.tokenizer), Prompt("logic_form")
        self.counts: Counter[str] = Counter()
        self._known: dict[tuple[str, str], float] = {}

    def __call__(self, nodes: Sequence[Node]) -> list[float]:
        pairs = []
        for node in nodes:
            sparql = node.episode.trajectory().extra.get("sparql") or ""
            pairs.append((question_of(node), one_line(sparql)))
        return self.scored(pairs)

    def scored(self, pairs: Sequence[tuple[Question, str]]) -> list[float]:
        """``log pi(S' | Q)`` of each pair of a question and a logic form."""
        new = {(q.text, s): (q, s) for q, s in pairs if (q.text, s) not in self._known}
        self.counts["states"] += len(pairs)
        self.counts["read"] += len(new)
        asked = [(self.chat.prompt(self.prompt.messages(q)), self._ids(s)) for q, s in new.values()]
        room = self.scorer.max_length
        read = self.scorer.logprobs([[*ask, *form][:room] for ask, form in asked])
        for key, (ask, _), logprobs in zip(new, asked, read, strict=True):
            self._known[key] = float(logprobs[len(ask) - 1 :].sum())
        return [self._known[q.text, s] for q, s in pairs]

    def _ids(self, text: str) -> list[int]:
        ids = self.scorer.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*ids, self.chat.end_of_turn]
