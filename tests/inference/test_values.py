"""Values of states, asked through `make_value` or with a scorer at hand."""

import json
import threading

import pytest
import torch

from graphwalker.errors import UserError
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.inference.values.chain_of_thought import ChainOfThought, EngineJudge
from graphwalker.inference.values.configs import ValueConfig
from graphwalker.inference.values.formulas import Scored, ig_proxy, ig_reward
from graphwalker.inference.values.information_gain import InformationGain
from graphwalker.inference.values.logic_form import LogicForm
from graphwalker.inference.values.make import make_value
from graphwalker.inference.values.transformers_scorer import TransformersScorer
from graphwalker.protocol.prompts import Prompt
from graphwalker.search.node import Node
from graphwalker.search.sanitise import history
from graphwalker.search.stored import StoredEpisode
from graphwalker.train import tiny
from graphwalker.types import Trajectory
from tests.local_server import LocalHandler, LocalServer


@pytest.fixture(scope="module")
def model(toy_tokenizer):
    made = tiny.make_model(toy_tokenizer, "qwen2", width=32, layers=2, heads=2)
    for weights in made.parameters():  # so that what comes next depends on what came before
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.3)
    return made.eval()


@pytest.fixture(scope="module")
def scorer(model, toy_tokenizer):
    return TransformersScorer(model, toy_tokenizer, max_length=512)


def states(trajectory, sparql=""):
    """The nodes on a trajectory's path, the root first."""
    nodes = []
    for count in range(len(trajectory.turns) + 1):
        turns = trajectory.turns[:count]
        over = count == len(trajectory.turns)
        recorded = Trajectory(trajectory.question, turns, trajectory.answer if over else None, extra={"sparql": sparql})
        node = Node(StoredEpisode(recorded), nodes[-1] if nodes else None, turns[-1] if turns else None)
        node.ending, node.answer = (trajectory.ending, trajectory.answer) if over else (None, None)
        nodes.append(node)
    return nodes


@torch.no_grad()
def two_passes(model, tokenizer, history_text, question):
    """The definition: one pass over H' and another over (H', Q), each text tokenised apart, behind the start token."""
    parts = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (history_text, question)]
    perplexities = []
    for ids in (parts[0], parts[0] + parts[1]):
        row = torch.tensor([[tokenizer.bos_token_id, *ids]])
        logprobs = model(row).logits[0, :-1].log_softmax(-1).gather(1, row[0, 1:, None])
        perplexities.append(torch.exp(-logprobs.sum() / len(ids)).item() if ids else 1.0)
    return *perplexities, len(parts[0]), len(parts[1])


def test_information_gain_is_the_definition_by_two_passes(model, scorer, toy_tokenizer, toy_trajectories):
    nodes = [node for trajectory in toy_trajectories for node in states(trajectory)[1:]]
    gains, proxies = InformationGain(scorer)(nodes), InformationGain(scorer, proxy=True)(nodes)
    for node, gain, proxy in zip(nodes, gains, proxies, strict=True):
        question = node.episode.trajectory().question
        text = history(node.turns(), question)
        of_history, of_both, h, q = two_passes(model, toy_tokenizer, text, question.text)
        ratio = torch.tensor(of_history / of_both, dtype=torch.float64)
        assert gain == pytest.approx(2 * torch.sigmoid(10 * ratio.log()).item(), abs=1e-4)
        expected = -(h + q) * torch.tensor(of_both).log().item() + h * torch.tensor(of_history).log().item()
        assert proxy == pytest.approx(expected, rel=1e-4)
    assert len({round(gain, 6) for gain in gains}) > 5


def test_states_of_equal_history_are_read_once(scorer, toy_trajectories):
    nodes = states(toy_trajectories[0])[1:]
    gain = InformationGain(scorer)
    first = gain([*nodes, nodes[0]])
    assert first[0] == first[-1] and gain(nodes) == first[:-1]
    assert gain.counts == {"states": 2 * len(nodes) + 1, "read": len(nodes)}


def test_a_history_without_room_is_cut_and_counted(model, toy_tokenizer, toy_trajectories):
    whole = InformationGain(TransformersScorer(model, toy_tokenizer, max_length=512))
    short = InformationGain(TransformersScorer(model, toy_tokenizer, max_length=40))
    question = toy_trajectories[0].question
    scored = short.scored([("word " * 100, question.text)])[0]
    assert short.counts["cut"] == 1 and scored.history_tokens + scored.question_tokens == 39
    assert scored.question_tokens == whole.scored([("a", question.text)])[0].question_tokens


def test_a_root_has_a_value(scorer, toy_trajectories):
    root = states(toy_trajectories[0])[0]
    (gain,) = InformationGain(scorer)([root])
    assert 0 <= gain <= 2


def test_constant_and_the_f1_of_terminal_states(toy_trajectories):
    nodes = states(toy_trajectories[0])
    assert make_value("constant", ValueConfig(value_constant=0.5))(nodes) == [0.5] * len(nodes)
    assert make_value("f1", ValueConfig())(nodes) == [0.0] * (len(nodes) - 1) + [1.0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"value": "luck"}, "value: expected one of"),
        ({"value_backend": "abacus"}, "value_backend: expected one of"),
        ({"value_beta": float("nan")}, "value_beta"),
        ({"value": "ig"}, "value_model is missing"),
        ({"value": "ig", "value_model": "m", "value_backend": "openai"}, "gives no log-probabilities"),
        ({"value": "cot", "value_model": "m", "value_backend": "openai"}, "value_url is missing"),
        ({"value": "ig", "value_model": "./nowhere"}, "no such folder"),
    ],
)
def test_bad_settings_are_one_clear_message(settings, problem):
    with pytest.raises(UserError, match=problem):
        config = ValueConfig(**settings)
        make_value(config.value, config)


def test_a_saved_model_gives_the_same_gain(model, scorer, toy_tokenizer, toy_trajectories, tmp_path):
    model.save_pretrained(tmp_path)
    toy_tokenizer.save_pretrained(tmp_path)
    config = ValueConfig("ig", str(tmp_path), value_backend="transformers", value_dtype="float32")
    nodes = states(toy_trajectories[1])
    assert make_value("ig", config)(nodes) == pytest.approx(InformationGain(scorer)(nodes), abs=1e-5)


def test_logic_forms_score_the_executed_query(model, scorer, toy_tokenizer, toy_trajectories):
    sparql = "SELECT ?x WHERE {\n  ?x ?y ?z\n}"
    question = toy_trajectories[0].question
    value = LogicForm(scorer)
    with_query, without = value([states(toy_trajectories[0], sparql)[-1], states(toy_trajectories[0])[-1]])
    asked = toy_tokenizer.apply_chat_template(
        Prompt("logic_form").messages(question), tokenize=False, add_generation_prompt=True
    )
    for form, found in (("SELECT ?x WHERE { ?x ?y ?z }", with_query), ("", without)):
        prompt, written = (
            toy_tokenizer(text, add_special_tokens=False)["input_ids"] for text in (asked, form + "<|im_end|>")
        )
        row = torch.tensor([prompt + written])
        with torch.no_grad():
            logprobs = model(row).logits[0, :-1].log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]
        assert found == pytest.approx(logprobs[len(prompt) - 1 :].sum().item(), abs=1e-3)
    assert question.text in asked and "{{" not in asked


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("It fits.\nScore: 7", 1.4),
        ("Score: 3? No.\n**Score:** 10/10", 2.0),
        ("score = 2.5", 0.5),
        ("Score: 11", 0.0),
        ("I cannot say.", 0.0),
        ("", 0.0),
        ("Score: 1000", 0.0),
    ],
)
def test_the_score_of_a_judgement(toy_trajectories, reply, value):
    cot = ChainOfThought(lambda messages: [reply] * len(messages))
    nodes = states(toy_trajectories[0])
    assert cot([nodes[1], nodes[1], nodes[2]]) == pytest.approx([value] * 3)
    assert cot.counts["asked"] == 2 and cot.counts["malformed"] == (0 if value else 2)


def test_a_judge_reads_the_whole_history_and_no_tag_of_it(toy_trajectories):
    asked = []
    ChainOfThought(lambda messages: asked.extend(messages) or ["Score: 1"] * len(messages))(states(toy_trajectories[2]))
    assert toy_trajectories[2].question.text in asked[0] and "none" in asked[0]
    assert toy_trajectories[2].turns[0].observation.split("\n")[0] in asked[1]
    assert "<think>" not in asked[1]


def test_a_judge_on_an_engine(toy_tokenizer, scripted_engine, toy_trajectories):
    engine = scripted_engine(toy_tokenizer, lambda key: [f"fine.\nScore: {key}"], capacity=2)
    cot = ChainOfThought(EngineJudge(engine, 16))
    assert cot(states(toy_trajectories[0])) == pytest.approx([0.0, 0.2, 0.4, 0.6][: len(states(toy_trajectories[0]))])
    assert not engine.open


def test_a_message_without_room_loses_its_middle(model, toy_tokenizer):
    engine = TransformersEngine(model, toy_tokenizer, capacity=1, max_length=128)
    judge = EngineJudge(engine, 64)
    text = "begin " + "word " * 500 + "end"
    whole = judge.chat.prompt([{"role": "user", "content": text}])
    ids = judge._fitting(text)
    assert len(ids) == 64 and ids[:32] == whole[:32] and ids[32:] == whole[-32:]
    assert len(judge([text])) == 1


def test_a_judge_behind_a_server(toy_trajectories):
    class Handler(LocalHandler):
        def do_POST(self):
            asked = json.loads(self.body())
            reply = f"Score: {len(asked['messages'][0]['content']) % 10}"
            body = json.dumps({"choices": [{"message": {"content": reply}}]}).encode()
            self.reply(200, body)

    server = LocalServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/v1"
        config = ValueConfig("cot", "any", value_backend="openai", value_url=url)
        nodes, value = states(toy_trajectories[0]), make_value("cot", config)
        expected = [len(value.message(toy_trajectories[0].question, node.turns())) % 10 / 5 for node in nodes]
        assert value(nodes) == pytest.approx(expected)
    finally:
        server.shutdown()
        server.server_close()


def test_the_formulas_take_what_a_pass_tells(scorer):
    (scored,) = InformationGain(scorer).scored([("get_relations()\n", "Which?")])
    assert isinstance(scored, Scored) and scored.history_logprob < 0
    assert 0 <= ig_reward(scored) <= 2 and ig_proxy(scored) == pytest.approx(scored.question_logprob)
