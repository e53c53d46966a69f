"""GRPO over KG episodes: TRL's trainer, with our rollout harness in the place of its generation loop.

TRL's own tool loop decodes all episodes in lockstep, ends an episode on a turn with neither query nor
answer, and has no forced answer at the last turn. Here the episodes of a step run through the very
harness that evaluates them (``inference.rollout``); scoring, advantages, loss, logging, saving and
resuming stay TRL's (GraphWalker, section 2.3: RL stage).
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging import LogRecord, getLogger
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object, is_peft_model
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation

from graphwalker.errors import UserError
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.inference.evaluate import episode_seed
from graphwalker.inference.in_step import Alone, InStep
from graphwalker.inference.rollout import Rollout, Start, run_episodes
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.protocol import chat
from graphwalker.train import vllm_cpu
from graphwalker.train.alarms import HealthCallback
from graphwalker.train.configs import RolloutConfig
from graphwalker.train.groups import ALIVE, KINDS, group_kinds
from graphwalker.train.loss_rows import keep_rows, moving_rows
from graphwalker.train.masks import check_rollouts
from graphwalker.train.preflight import check_reference
from graphwalker.train.rollout_log import episode_sums, outages_by_kind, total
from graphwalker.train.sampler import ShuffledByEpoch
from graphwalker.train.turn_ratio import with_turn_ratio
from graphwalker.train.vllm_rollouts import vllm_engine

SUMMED_LOSSES = ("cispo", "dapo", "vespo")  # divided by the tokens of the whole generation batch
ROW_MEANS = ("dr_grpo", "grpo", "luspo", "sapo")  # divided by the number of rows


def _is_no_outage(record: LogRecord) -> bool:
    """TRL prints a whole episode for each that cannot be scored; here those are counted, and an alarm tells of them."""
    return not str(record.msg).startswith("All reward functions returned None")


class EpisodeGRPOTrainer(GRPOTrainer):
    """``GRPOTrainer`` whose completions are whole KG episodes.

    Pass ``environment_factory=envs.trl_adapter.adapter_factory(...)``: the trainer resets each environment with its
    dataset row, this class runs the episodes, and reward functions receive them as ``trajectory``. ``rollout`` is a
    ``RolloutConfig``. Without environments it is TRL's trainer to the last bit, but for the group health it logs, dead
    groups that are dropped where asked for, and ``importance_sampling_level``, which may be ``turn`` too.
    """

    _tag_names = ["graphwalker", "grpo"]
    importance_sampling_level: str
    beta: float
    _last_loaded_step: int

    def __init__(self, *, model, args, rollout: RolloutConfig | None = None, peft_config=None, **kwargs):
        check_reference(model, args, adapted=peft_config is not None or is_peft_model(model))
        with vllm_cpu.left_out(args) as on_cpu:
            super().__init__(model=model, args=args, peft_config=peft_config, **kwargs)
        if on_cpu:
            vllm_cpu.attach(self)
        self.rollout = rollout or RolloutConfig()
        self.chat_tokens = ChatTokens(self.processing_class)
        self.by_turn = self.importance_sampling_level == "turn"
        if self.by_turn:
            self.importance_sampling_level = "token"  # TRL's formula, on log-ratios that are their turn's mean
        if self._dist.fsdp_version == 1:
            raise UserError("fsdp_version: 1 cannot generate shard by shard; use 2")
        self.in_step = self._agreement()
        self.outages: Counter[str] = Counter()
        self._rows: list[dict[str, Any]] = []  # of the batch that is being generated
        self._rewards = torch.empty(0, 0)  # (N, R) of all processes, weighted
        self._scored: dict[str, Any] | None = None  # the inputs of the loss that is being computed
        self.add_callback(HealthCallback())
        getLogger("trl.trainer.grpo_trainer").addFilter(_is_no_outage)

    def _agreement(self) -> Alone:
        """How processes keep in step while they generate: only where a pass of one needs the others."""
        sharded = self._dist.is_fsdp or (self._dist.is_zero3 and not self.args.ds3_gather_for_generation)
        needed = self.accelerator.num_processes > 1 and sharded and not self.use_vllm
        return InStep(self.accelerator.device) if needed else Alone()

    def _save(self, output_dir=None, state_dict=None):
        """Without the copy of the adapter that is the KL reference: it is made again from where training began.

        With one beside it, resuming would load the copy and leave the policy's own adapter as it was at the start.
        """
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(output_dir or self.args.output_dir) / "ref", ignore_errors=True)

    def _get_train_sampler(self, dataset=None):
        sampler = super()._get_train_sampler(dataset)
        if self.environment_factories is None:
            return sampler
        return ShuffledByEpoch(sampler, lambda: int(self.state.epoch or 0))

    def _generate_and_score_completions(self, inputs):
        """As TRL's; what cannot be scored, and dead groups unless they are kept, take no part in the loss."""
        self._rows = [dict(row) for row in inputs]  # TRL reads it too: a refilled group's rows are replaced in it
        output = super()._generate_and_score_completions(self._rows)
        mode = "train" if self.model.training else "eval"
        kinds = self._group_kinds()
        self._group_counts.update(kinds)
        for kind in KINDS:
            self._metrics[mode][f"group/{kind}"].append(self._group_counts[kind] / self._group_counts.total())
        self._metrics[mode]["group/refilled"].append((self._group_counts.total() - len(kinds)) / len(kinds))
        return output if self._as_trl() else self._leave_out(output, kinds)

    def _as_trl(self) -> bool:
        return self.environment_factories is None and self.rollout.dead_groups == "keep"

    def _leave_out(self, output: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
        """Mask the tokens of rows that are to take no part, and take them out of what the loss is divided by."""
        counts = ~self._rewards.isnan().all(dim=1)  # (N,)
        if self.rollout.dead_groups != "keep" and self.model.training:
            alive = torch.tensor([kind == ALIVE for kind in kinds], device=counts.device)
            counts &= alive.repeat_interleave(self.num_generations)
        rows = output["completion_mask"].shape[0]
        first = self.accelerator.process_index * rows
        here = counts[first : first + rows, None]
        output["tool_mask"] = output.get("tool_mask", torch.ones_like(output["completion_mask"])) * here
        trained = (output["completion_mask"] * output["tool_mask"]).sum()
        output["num_items_in_batch"] = self.accelerator.gather(trained).sum()
        output["share_in_loss"] = counts.float().mean().clamp(min=1 / len(counts))
        return output

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._rewards = rewards * self.reward_weights.to(rewards.device)
        return rewards

    def _group_kinds(self) -> list[str]:
        """The kinds of the batch's groups, the same on every process."""
        rewards = self._rewards
        if self.multi_objective_aggregation == "sum_then_normalize":
            unscored = rewards.isnan().all(dim=1)
            rewards = rewards.nansum(dim=1, keepdim=True).masked_fill(unscored[:, None], torch.nan)
        size = self.num_generations if self.model.training else self.num_generations_eval
        return group_kinds(rewards, size, float(self.reward_weights.clamp(min=0).sum()))

    def _generate(self, prompts: list):
        """TRL's hook: from prompts to token ids and masks, in the order of the prompts."""
        self._group_counts: Counter[str] = Counter()
        if self.environments is None:
            return super()._generate(prompts)
        mode = "train" if self.model.training else "eval"
        rollouts = self._run(prompts)
        check_rollouts(rollouts)
        sampled = list(rollouts)
        if mode == "train" and self.rollout.dead_groups == "refill":
            sampled += self._refill(prompts, rollouts)
        self._log_rollouts(mode, sampled)
        self._hand_over(rollouts)
        return (
            [r.prompt_ids for r in rollouts],
            [r.ids for r in rollouts],
            [r.mask for r in rollouts],
            [chat.turn_messages(r.trajectory()) for r in rollouts],
            [r.logprobs for r in rollouts] if self.use_vllm else None,  # TRL's correction for vLLM reads them
            {},
            None,
            [],
        )

    def _hand_over(self, rollouts: list[Rollout]) -> None:
        """Give the reward functions the episodes as the model saw them."""
        for row, rollout in zip(self._rows, rollouts, strict=True):
            row["trajectory"] = rollout.trajectory()

    def _refill(self, prompts: list, rollouts: list[Rollout]) -> list[Rollout]:
        """Put other questions in the place of dead groups, up to ``max_refills`` times; returns the further episodes.

        DAPO's dynamic sampling (Yu et al., 2025), in place: every process knows all rewards and draws the same
        questions, so a group that lies on two processes stays whole. Changes ``prompts`` and ``rollouts``.
        """
        further: list[Rollout] = []
        fresh = self._other_rows()
        first = self.accelerator.process_index * len(prompts)
        for attempt in range(1, self.rollout.max_refills + 1):
            self._hand_over(rollouts)
            completions = [chat.turn_messages(r.trajectory()) for r in rollouts]
            self._calculate_rewards(self._rows, prompts, completions, [r.ids for r in rollouts])
            self._pending_metrics.clear()  # what a reward logged here it logs again when TRL calls it
            self._pending_extra_logs.clear()
            kinds = self._group_kinds()
            rows = dict(zip((g for g, kind in enumerate(kinds) if kind != ALIVE), fresh, strict=False))
            if not rows:
                break
            self._group_counts.update(kinds[group] for group in rows)
            here = [i for i in range(len(prompts)) if (first + i) // self.num_generations in rows]
            for i in here:
                row = rows[(first + i) // self.num_generations]
                self._rows[i], prompts[i] = dict(row), row["prompt"]
                self.environments[i].reset(**row)
            again = self._run(prompts, here, attempt)
            further += again
            for i, rollout in zip(here, again, strict=True):
                rollouts[i] = rollout
        return further

    def _other_rows(self) -> Iterator[dict[str, Any]]:
        """Rows of the dataset that are not in the batch, in an order that the step decides; the same everywhere."""
        seen = set(gather_object([str(row["prompt"]) for row in self._rows]))
        seed = episode_seed(self.args.seed, f"refill:{self.state.global_step}", self._micro_step())
        order = torch.randperm(len(self.train_dataset), generator=torch.Generator().manual_seed(seed))
        rows = (self.train_dataset[i] for i in order.tolist())
        return (row for row in rows if str(row["prompt"]) not in seen)

    def _micro_step(self) -> int:
        # a run that was resumed counts micro-steps from 0 again, so only their place in the step may matter
        return self._step % self.args.gradient_accumulation_steps

    def _run(self, prompts: list, places: Sequence[int] | None = None, attempt: int = 0) -> list[Rollout]:
        """Run the episodes at ``places`` of the batch (default: all)."""
        mode = "train" if self.model.training else "eval"
        name = f"{mode}:{self.state.global_step}:{self._micro_step()}:{self.accelerator.process_index}"
        if attempt:
            name += f":{attempt}"
        starts = [
            Start(
                i,
                self.environments[i].episode,
                self.chat_tokens.prompt(prompts[i]),
                episode_seed(self.args.seed, name, i),
            )
            for i in (range(len(prompts)) if places is None else places)
        ]
        sampling = Sampling(
            temperature=self.args.temperature,
            top_p=self.args.top_p,
            top_k=self.args.top_k or 0,
            max_new_tokens=self.rollout.max_turn_tokens,
        )
        with self._engine(len(starts)) as engine:
            by_key = {rollout.key: rollout for rollout in run_episodes(starts, engine, sampling)}
            engine.finish()
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
            yield TransformersEngine(
                model, self.processing_class, capacity=capacity, max_length=max_length, in_step=self.in_step
            )
            model.train(was_training)

    def _log_rollouts(self, mode: str, rollouts: list[Rollout]) -> None:
        """Log what TRL's own generation logs, and how the episodes went, over all processes."""
        sums = total(episode_sums(rollouts), self.accelerator)
        tokens, _ = sums.pop("num_tokens")
        for name, (value, count) in sums.items():
            self._metrics[mode][name].append(value / count if count else torch.nan)
        if sums["episode/outage"][0]:
            self.outages.update(outages_by_kind(rollouts))
        for kind, count in self.outages.items():
            self._metrics[mode][f"outage/{kind}"] = [count]
        if mode == "train":
            self.state.num_input_tokens_seen += int(tokens)
        self._metrics[mode]["num_tokens"] = [self.state.num_input_tokens_seen]

    def _compute_loss(self, model, inputs):
        """As TRL's, without computing rows that cannot move the policy, and without counting rows left out.

        A row whose tokens are all masked has no part in any loss. A row of a group whose rewards are all equal has
        advantage 0; where nothing but the advantage makes a gradient (no KL, no entropy bonus) and the loss is a sum
        over a fixed count of tokens, leaving such a row out changes the logged entropy and clip ratios alone. Every
        process keeps as many rows as the one that has most to keep, and at least one: TRL gathers one value a row.
        """
        inputs = dict(inputs)
        share, rows, beta = inputs.pop("share_in_loss", 1.0), inputs["advantages"].shape[0], self.beta
        kept = rows
        if self.model.training and not self._as_trl():
            moves = moving_rows(inputs, self._advantages_decide())
            kept = max(1, int(self.accelerator.gather(moves.sum()).max()))
            inputs = keep_rows(inputs, moves, kept)
        if self.loss_type in ROW_MEANS:  # over the rows that are given: make it one over those that count
            scale = kept / rows / share
            inputs["advantages"], self.beta = inputs["advantages"] * scale, self.beta * float(scale)
        self._scored = inputs
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._scored, self.beta = None, beta

    def _advantages_decide(self) -> bool:
        """Whether a row without an advantage adds nothing to the loss."""
        only_advantages = self.beta == 0 and not self._entropy_bonus_enabled and not self.aux_loss_enabled
        return only_advantages and self.loss_type in SUMMED_LOSSES and self.top_entropy_quantile == 1.0

    def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
        """As TRL's, without computing the columns that are padding in every row.

        Episodes differ much in length, and all are padded to the longest of the generation batch.
        """
        width = input_ids.shape[1]
        used = attention_mask.any(dim=0).nonzero() if not self._as_trl() else torch.tensor([0, width - 1])
        # at least one column of the completions, in case all of them are masked
        first, last = int(used[0]), max(int(used[-1]) + 1, width - logits_to_keep + 1)
        right = width - last
        kept = min(logits_to_keep - right, last - first)
        logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(
            model, input_ids[:, first:last], attention_mask[:, first:last], kept, *args, **kwargs
        )
        pad = (logits_to_keep - right - kept, right)
        logps = torch.nn.functional.pad(logps, pad)
        if self.by_turn and self._scored is not None:
            logps = with_turn_ratio(logps, self._scored)
        return logps, None if entropies is None else torch.nn.functional.pad(entropies, pad), aux_loss
