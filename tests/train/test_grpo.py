"""One GRPO step on the toy KG: whose episodes, what rewards and advantages, and whose probabilities."""

import math

import pytest
import torch

from graphwalker.errors import UserError
from graphwalker.inference.engine import Sampling
from graphwalker.protocol.render import render_turn
from graphwalker.tools.observation import Observation
from graphwalker.train.grpo_trainer import RolloutConfig
from graphwalker.train.trl_rewards import reward_functions

WRONG = render_turn("A guess.", "answer", '["Atlantis"]')
RIGHT = render_turn("Done.", "answer", '["Paris"]')
ASK = render_turn("Look.", "query", 'get_relations("France")')


def _record(trainer, name: str) -> list:
    """What a method of the trainer returns, call by call."""
    returned = []
    method = getattr(trainer, name)

    def recording(*args, **kwargs):
        returned.append(method(*args, **kwargs))
        return returned[-1]

    setattr(trainer, name, recording)
    return returned


def test_rewards_and_advantages(make_grpo, use_script, toy_tasks):
    texts = {question.id: turns for question, turns in toy_tasks}
    trainer = make_grpo()

    def script(key):
        return texts[trainer.environments[key].episode.trajectory().question.id] if key % 2 else [WRONG]

    use_script(script)
    batches, rollouts = _record(trainer, "_generate_and_score_completions"), _record(trainer, "_run")
    trainer.train()
    (run,) = rollouts
    questions = [rollout.trajectory().question.id for rollout in run]
    assert len(set(questions[:4])) == len(set(questions[4:])) == 1  # one group a question, side by side
    assert [rollout.reward for rollout in run] == [0, 1] * 4
    assert batches[0]["advantages"].tolist() == pytest.approx([-0.866, 0.866] * 4, abs=1e-2)
    (log,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert log["reward"] == log["rewards/em/mean"] == 0.5 and log["frac_reward_zero_std"] == 0
    assert log["episode/answered"] == 1 and log["episode/turns"] == 2 and log["episode/outage"] == 0


def test_an_outage_is_not_a_wrong_answer(make_grpo, use_script, monkeypatch):
    trainer = make_grpo()
    outage = Observation("Error: the graph does not answer.", "kg_timeout", outage="timeout")

    def script(key):
        if key in (0, 3):
            monkeypatch.setattr(trainer.environments[key].episode._session, "run", lambda text: outage)
            return [ASK]
        return [RIGHT] if key in (1, 2) else [WRONG]

    use_script(script)
    rewards = {"em": lambda t: float(t.answer == ("Paris",))}
    monkeypatch.setattr("graphwalker.train.trl_rewards.EPISODE_REWARDS", rewards)
    trainer.reward_funcs = reward_functions(["em"])
    batches, rewards = _record(trainer, "_generate_and_score_completions"), _record(trainer, "_calculate_rewards")
    trainer.train()
    assert [math.isnan(value) for value in rewards[0][:, 0].tolist()] == [key in (0, 3) for key in range(8)]
    assert batches[0]["advantages"].tolist() == pytest.approx([0.0] * 8)  # 1 and 1 beside the outages: no difference
    (log,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert log["episode/outage"] == 0.25 and log["outage/timeout"] == 2


def test_unknown_rewards_are_refused():
    with pytest.raises(UserError, match="unknown reward 'exact'; one of em"):
        reward_functions(["em", "exact"])


@pytest.mark.parametrize("architecture", ["lfm2", "qwen2"])
def test_training_sees_the_probabilities_that_sampled_the_tokens(make_grpo, make_model, architecture, monkeypatch):
    """Left padding, trimmed columns, one ragged cache against one padded pass: the same numbers."""
    monkeypatch.setattr("graphwalker.train.grpo_trainer.SUMMED_LOSSES", ())  # score every row
    model = make_model(architecture)
    torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.5)
    trainer = make_grpo(model, rollout=RolloutConfig(3, 6, 300), temperature=0.7, top_p=0.9, num_generations=2)
    rollouts = _record(trainer, "_run")
    scored, batches = _record(trainer, "_get_per_token_logps_and_entropies"), []
    compute_loss = trainer._compute_loss
    trainer._compute_loss = lambda model, inputs: batches.append(inputs) or compute_loss(model, inputs)
    trainer.train()
    by_ids = {(*r.prompt_ids, *r.ids): r for r in rollouts[0]}
    (batch,), ((logps, entropies, _),) = batches, scored
    assert logps.shape == batch["completion_ids"].shape == entropies.shape
    for row, logp in enumerate(logps):
        prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
        length = int(batch["completion_mask"][row].sum())
        rollout = by_ids[(*prompt, *batch["completion_ids"][row, :length].tolist())]
        made = [i for i, mask in enumerate(rollout.mask) if mask]
        assert len(rollout.trajectory().turns) > 1 and made
        assert logp[made].tolist() == pytest.approx([rollout.logprobs[i] for i in made], abs=1e-4)


def test_masking_cut_episodes_leaves_no_token_and_does_not_crash(make_grpo):
    trainer = make_grpo(mask_truncated_completions=True, rollout=RolloutConfig(8, 4, 200))
    trainer.train()  # an untrained model never ends a turn
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


def test_a_greedy_policy_gets_no_gradient(make_grpo, make_model):
    """All episodes of a group are then alike: no advantage, no change."""
    model = make_model()
    before = [p.detach().clone() for p in model.parameters()]
    trainer = make_grpo(model, rollout=RolloutConfig(8, 6, 200))
    assert Sampling(top_k=1).temperature == 1.0
    trainer.args.top_k = 1
    trainer.train()
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_leaving_out_rows_without_advantage_changes_no_weight(make_grpo, make_model, use_script, monkeypatch):
    start = make_model().state_dict()

    def train(losses):
        monkeypatch.setattr("graphwalker.train.grpo_trainer.SUMMED_LOSSES", losses)
        model = make_model()
        model.load_state_dict(start)
        trainer = make_grpo(model, learning_rate=0.1, optim="sgd")
        # the first group has both outcomes, the second none right
        use_script(lambda key: [_gold_turn(trainer, key)] if key in (0, 1) else [WRONG])
        rows = []
        score = trainer._get_per_token_logps_and_entropies
        trainer._get_per_token_logps_and_entropies = lambda model, ids, *a, **k: (
            rows.append(len(ids)) or score(model, ids, *a, **k)
        )
        trainer.train()
        return rows, [p.detach() for p in trainer.model.parameters()]

    (all_rows, whole), (kept_rows, part) = train(()), train(("dapo",))
    assert (all_rows, kept_rows) == ([8], [4])
    for a, b in zip(whole, part, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def _gold_turn(trainer, key: int) -> str:
    gold = trainer.environments[key].episode.trajectory().question.answers
    return render_turn("Done.", "answer", f'["{gold[0].name}"]')
