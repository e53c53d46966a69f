"""GRPO over KG episodes: TRL's trainer, with our rollout harness in the place of its generation loop.

TRL's own tool loop decodes all episodes in lockstep, ends an episode on a turn with neither query nor
answer, and has no forced answer at the last turn. Here the episodes of a step run through the very
harness that evaluates them (``inference.rollout``); scoring, advantages, loss, logging, saving and
resuming stay TRL's (GraphWalker, section 2.3: RL stage).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import Sampler
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation

from graphwalker.errors import at_least
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.inference.evaluate import episode_seed
from graphwalker.inference.rollout import Rollout, Start, run_episodes
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.protocol import chat
from graphwalker.train import vllm_cpu
from graphwalker.train.vllm_rollouts import vllm_engine
from graphwalker.types import RAN

SUMMED_LOSSES = ("cispo", "dapo", "vespo")  # divided by the tokens of the whole generation batch


@dataclass
class RolloutConfig:
    """How episodes are decoded during GRPO."""

    rollout_rows: int = field(default=64, metadata={"help": "Episodes decoded at a time on each process."})
    max_turn_tokens: int = field(
        default=512, metadata={"help": "Tokens a turn may take; a longer one is cut and told so."}
    )
    max_episode_tokens: int = field(
        default=4096, metadata={"help": "Tokens an episode may take, prompt and observations included."}
    )
    guided_turns: bool = field(
        default=False, metadata={"help": "Hold every turn to the protocol's form while it is decoded; needs vLLM."}
    )

    def __post_init__(self) -> None:
        at_least(self, rollout_rows=1, max_turn_tokens=1, max_episode_tokens=1)


class _ShuffledByEpoch(Sampler):
    """TRL's sampler, shuffled by the number of the epoch and not by what was shuffled before.

    So a run that is resumed in a later epoch meets its questions in the order that it would have had.
    """

    def __init__(self, sampler: Any, epoch: Callable[[], int]):
        self.sampler, self.epoch = sampler, epoch

    def __iter__(self) -> Iterator[int]:
        if self.sampler.shuffle:
            self.sampler.generator.manual_seed(self.sampler.seed + self.epoch())
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


class EpisodeGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` whose completions are whole KG episodes.

    Pass ``environment_factory=envs.trl_adapter.adapter_factory(...)``: the trainer resets each
    environment with its dataset row, this class runs the episodes, and reward functions receive the
    environments. ``rollout`` is a ``RolloutConfig``.
    """

    _tag_names = ["graphwalker", "grpo"]

    def __init__(self, *args, rollout: RolloutConfig, **kwargs):
        with vllm_cpu.left_out(kwargs.get("args")) as on_cpu:
            super().__init__(*args, **kwargs)
        if on_cpu:
            vllm_cpu.attach(self)
        self.rollout = rollout
        self.chat_tokens = ChatTokens(self.processing_class)

    def _get_train_sampler(self, dataset=None):
        return _ShuffledByEpoch(super()._get_train_sampler(dataset), lambda: int(self.state.epoch or 0))

    def _generate(self, prompts: list):
        """TRL's hook: from prompts to token ids and masks, in the order of the prompts."""
        mode = "train" if self.model.training else "eval"
        rollouts = self._run(prompts)
        self._log_rollouts(mode, rollouts)
        completions = [chat.turn_messages(r.trajectory()) for r in rollouts]
        return (
            [r.prompt_ids for r in rollouts],
            [r.ids for r in rollouts],
            [r.mask for r in rollouts],
            completions,
            [r.logprobs for r in rollouts] if self.use_vllm else None,  # for TRL's correction of vLLM's numerics
            {},
            None,
            [],
        )

    def _run(self, prompts: list) -> list[Rollout]:
        mode = "train" if self.model.training else "eval"
        # a run that was resumed counts its micro-steps from 0 again, so only their place in the step may matter
        micro = self._step % self.args.gradient_accumulation_steps
        name = f"{mode}:{self.state.global_step}:{micro}:{self.accelerator.process_index}"
        starts = [
            Start(i, environment.episode, self.chat_tokens.prompt(prompt), episode_seed(self.args.seed, name, i))
            for i, (prompt, environment) in enumerate(zip(prompts, self.environments, strict=True))
        ]
        sampling = Sampling(
            temperature=self.args.temperature,
            top_p=self.args.top_p,
            top_k=self.args.top_k or 0,
            max_new_tokens=self.rollout.max_turn_tokens,
        )
        with self._engine(len(starts)) as engine:
            by_key = {rollout.key: rollout for rollout in run_episodes(starts, engine, sampling)}
        return [by_key[start.key] for start in starts]

    @contextmanager
    def _engine(self, rows: int) -> Iterator[Engine]:
        """An engine for up to so many rows at a time, with the weights of this step."""
        capacity = max(1, min(self.rollout.rollout_rows, rows))
        max_length = self.rollout.max_episode_tokens
        if self.use_vllm:
            with vllm_engine(self, capacity, max_length, self.rollout.guided_turns) as engine:
                yield engine
            return
        gather = self.args.ds3_gather_for_generation
        with (
            torch.no_grad(),
            unwrap_model_for_generation(self.model_wrapped, self.accelerator, gather_deepspeed3_params=gather) as model,
        ):
            was_training = model.training
            model.eval()
            yield TransformersEngine(model, self.processing_class, capacity=capacity, max_length=max_length)
            model.train(was_training)

    def _log_rollouts(self, mode: str, rollouts: list[Rollout]) -> None:
        """Log what TRL's own generation logs, and how the episodes went, over all processes."""
        device = self.accelerator.device
        trajectories = [r.trajectory() for r in rollouts]
        columns = {
            "completions/mean_length": [sum(r.mask) for r in rollouts],
            "episode/tokens": [len(r.prompt_ids) + len(r.ids) for r in rollouts],
            "episode/turns": [len(t.turns) for t in trajectories],
            "episode/answered": [t.ending == "answered" for t in trajectories],
            "episode/outage": [t.ending == "outage" for t in trajectories],
            "episode/errors": [sum(turn.status not in RAN for turn in t.turns) for t in trajectories],
        }
        for name, values in columns.items():
            gathered = self.accelerator.gather(torch.tensor(values, dtype=torch.float32, device=device))
            self._metrics[mode][name].append(gathered.mean().item())
            if mode == "train" and name == "episode/tokens":
                self.state.num_input_tokens_seen += int(gathered.sum().item())
        self._metrics[mode]["num_tokens"] = [self.state.num_input_tokens_seen]

    def _compute_loss(self, model, inputs):
        """As TRL's, without computing rows that cannot move the policy.

        A row of a group whose rewards are all equal has advantage 0; where nothing but the advantage makes a
        gradient (no KL, no entropy bonus) and the loss is a sum over a fixed count of tokens, leaving such a row
        out changes the logged entropy and clip ratios alone. Every process keeps as many rows as the one that has
        most to keep, and at least one: TRL gathers one value a row.
        """
        only_advantages = self.beta == 0 and not self._entropy_bonus_enabled and not self.aux_loss_enabled
        one_by_one = self.loss_type in SUMMED_LOSSES and self.top_entropy_quantile == 1.0
        if self.model.training and only_advantages and one_by_one:
            rows = inputs["advantages"].shape[0]
            moves = inputs["advantages"].ne(0).long()
            count = max(1, int(self.accelerator.gather(moves.sum()).max()))
            keep = moves.argsort(descending=True, stable=True)[:count].sort().values
            inputs = {
                key: value[keep] if isinstance(value, torch.Tensor) and value.shape[:1] == (rows,) else value
                for key, value in inputs.items()
            }
        return super()._compute_loss(model, inputs)

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
        """As TRL's, without computing the columns that are padding in every row.

        Episodes differ much in length, and all are padded to the longest of the generation batch.
        """
        used = attention_mask.any(dim=0).nonzero()
        width = input_ids.shape[1]
        # at least one column of the completions, in case all of them are masked
        first, last = int(used[0]), max(int(used[-1]) + 1, width - logits_to_keep + 1)
        right = width - last
        kept = min(logits_to_keep - right, last - first)
        logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(
            model, input_ids[:, first:last], attention_mask[:, first:last], kept, *args, **kwargs
        )
        pad = (logits_to_keep - right - kept, right)
        logps = torch.nn.functional.pad(logps, pad)
        return logps, None if entropies is None else torch.nn.functional.pad(entropies, pad), aux_loss
