"""What takes no part in training has no influence on it: outages, dropped groups; and what refills them."""

from argparse import Namespace

import pytest
import torch

from graphwalker.errors import UserError
from graphwalker.inference import load
from graphwalker.protocol.render import render_turn
from graphwalker.tools.observation import Observation
from graphwalker.train.config_values import check_limits, check_types
from graphwalker.train.configs import RewardConfig, RolloutConfig

WRONG = render_turn("A guess.", "answer", '["Atlantis"]')
LONGER = render_turn("A guess that takes much longer to write down.", "answer", '["Atlantis", "Lemuria"]')
ASK = render_turn("Look.", "query", 'get_relations("France")')
OUTAGE = Observation("Error: the graph does not answer.", "kg_timeout", outage="timeout")
SGD = {"learning_rate": 0.1, "optim": "sgd"}


def _question(trainer, key: int):
    return trainer.environments[key].episode.trajectory().question


def _gold(trainer, key: int) -> str:
    return render_turn("Done.", "answer", f'["{_question(trainer, key).answers[0].name}"]')


def _weights(trainer) -> list[torch.Tensor]:
    trainer.train()
    return [p.detach().clone() for p in trainer.model.parameters()]


ROUNDING = 1e-5  # rows of another length are summed in another order


def _apart(some: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """The largest difference between two models' weights, which are of the size of 0.1."""
    return max(float((a - b).abs().max()) for a, b in zip(some, others, strict=True))


def _log(trainer) -> dict:
    return next(entry for entry in trainer.state.log_history if "reward" in entry)


@pytest.fixture
def break_graph(monkeypatch):
    return lambda trainer, key: monkeypatch.setattr(
        trainer.environments[key].episode._session, "run", lambda text: OUTAGE
    )


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "bnpo", "dr_grpo"])
def test_an_outage_has_no_part_in_the_loss_whatever_its_episode_held(loss_type, make_grpo, use_script, break_graph):
    def train(text):
        trainer = make_grpo(rewards=("em", "turn_format"), reward_weights=[1.0, 0.1], loss_type=loss_type, **SGD)

        def script(key):
            if key in (2, 5):
                break_graph(trainer, key)
                return [text]
            return [_gold(trainer, key)] if key % 2 else [WRONG]

        use_script(script)
        return _weights(trainer), _log(trainer)

    (one, log), (other, _) = train(ASK), train(ASK.replace("Look.", "Look at all that stands around there."))
    assert _apart(one, other) < ROUNDING
    assert log["episode/outage"] == 0.25 and log["outage/timeout"] == 2
    assert log["episode/answered"] == log["episode/turns"] == 1.0  # of those that could be scored
    assert log["rewards/em/mean"] == 0.5 and log["rewards/turn_format/mean"] == 1.0 and log["group/alive"] == 1.0


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
@pytest.mark.parametrize("dead", ["outage", "drop"])
def test_the_loss_is_that_of_the_groups_that_count(dead, loss_type, make_grpo, use_script, break_graph):
    """The second group is out: as if the batch had been the first one alone."""

    def train(rows):
        rollout = RolloutConfig(8, 8, 256, dead_groups="drop" if dead == "drop" else "keep")
        trainer = make_grpo(rollout=rollout, loss_type=loss_type, per_device_train_batch_size=rows, **SGD)

        def script(key):
            if key >= 4:
                if dead == "outage":
                    break_graph(trainer, key)
                return [ASK] if dead == "outage" else [LONGER]
            return [_gold(trainer, key)] if key % 2 else [WRONG]

        use_script(script)
        return _weights(trainer), _log(trainer)

    (both, log), (alone, _) = train(8), train(4)
    assert _apart(both, alone) < ROUNDING
    assert log["group/alive"] == 0.5 and log["group/outage" if dead == "outage" else "group/all_wrong"] == 0.5


@pytest.mark.slow
def test_a_dropped_group_has_no_part_in_the_kl_either(make_grpo, make_model, use_script, toy_tokenizer, tmp_path):
    make_model().save_pretrained(tmp_path / "model")
    toy_tokenizer.save_pretrained(tmp_path / "model")

    def train(text, dead_groups):
        model = load.load_model(str(tmp_path / "model"), toy_tokenizer, "float32", None)
        # a step before, so that policy and reference differ
        trainer = make_grpo(
            model, rollout=RolloutConfig(8, 8, 256, dead_groups=dead_groups), beta=0.5, max_steps=2, **SGD
        )
        use_script(lambda key: [[_gold(trainer, key)] if key % 2 else [WRONG], [text]][key >= 4])
        return _weights(trainer)

    dropped, kept = ([train(text, what) for text in (WRONG, LONGER)] for what in ("drop", "keep"))
    assert _apart(*dropped) < ROUNDING < _apart(*kept) / 10


def test_dead_groups_are_refilled_with_other_questions(make_grpo, use_script):
    trainer = make_grpo(rollout=RolloutConfig(8, 8, 256, dead_groups="refill", max_refills=4))
    asked: list[list[str]] = []
    run = trainer._run

    def running(*args):
        rollouts = run(*args)
        asked.append([rollout.trajectory().question.id for rollout in rollouts])
        return rollouts

    trainer._run = running
    hard = []

    def script(key):
        number = _question(trainer, key).id
        if not hard:
            hard.append(number)  # the first question of the batch
        return [_gold(trainer, key)] if key % 2 and number not in hard else [WRONG]

    use_script(script)
    seen = []
    trainer.reward_funcs = [_seeing(trainer.reward_funcs[0], seen)]
    trainer.train()
    first, second = asked
    assert len(first) == 8 and len(second) == 4 and set(second).isdisjoint(first)
    assert seen[-1] == second + first[4:]  # what TRL scores in the end: prompts and episodes of the same questions
    log = _log(trainer)
    assert log["group/refilled"] == 0.5 and log["group/alive"] == pytest.approx(2 / 3)
    assert log["group/all_wrong"] == pytest.approx(1 / 3) and log["frac_reward_zero_std"] == 0


def _seeing(reward, seen):
    def em(prompts, trajectory, **kwargs):
        assert all(t.question.text in p[-1]["content"] for p, t in zip(prompts, trajectory, strict=True))
        seen.append([t.question.id for t in trajectory])
        return reward(trajectory=trajectory, **kwargs)

    return em


def test_refilling_ends_where_there_is_nothing_else(make_grpo, make_model, use_script):
    model = make_model()
    before = [p.detach().clone() for p in model.parameters()]
    trainer = make_grpo(model, rollout=RolloutConfig(8, 8, 256, dead_groups="refill", max_refills=9))
    use_script(lambda key: [WRONG])
    assert all(torch.equal(a, b) for a, b in zip(before, _weights(trainer), strict=True))
    log = _log(trainer)
    assert log["group/refilled"] == 1.0 and log["group/all_wrong"] == 1.0  # four questions, two of them at first


def test_bad_configs_are_refused():
    with pytest.raises(UserError, match=r"reward_weights: 1 weights for 2 rewards \(em, format\)"):
        check_limits(Namespace(rewards=["em", "format"], reward_weights=[1.0]))
    with pytest.raises(UserError, match="importance_sampling_level: 'turns' is not one of token, turn, sequence"):
        check_limits(Namespace(importance_sampling_level="turns"))
    with pytest.raises(UserError, match="c.yaml: dead_groups: expected keep or drop or refill, got 'refil'"):
        check_types("c.yaml", {"dead_groups": "refil"}, (RolloutConfig,))
    check_types("c.yaml", {"dead_groups": "refill"}, (RolloutConfig,))
    with pytest.raises(UserError, match="unknown reward 'exact'; one of em, em_set"):
        RewardConfig(["exact"])
    with pytest.raises(UserError, match="each once"):
        RewardConfig(["em", "em"])
