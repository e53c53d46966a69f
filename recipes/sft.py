"""Supervised fine-tuning on trajectories (GraphWalker, section 2.3: SFT stages 1 and 2).

Trains on exactly what the model itself would write: thought, query or answer, end of turn. Observations
and the prompt are read, not trained. The same recipe serves both stages; only the data differs.

On a CPU, in minutes:  accelerate launch recipes/sft.py
On several GPUs:       accelerate launch --config_file launch/accelerate/zero3.yaml recipes/sft.py --config CONFIG.yaml
"""

from pathlib import Path

from trl import ModelConfig, SFTConfig, SFTTrainer

from data_pipelines.actor_demo import prepare_actor_demo
from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, prompt_of
from graphwalker.files import file_hash
from graphwalker.inference import load
from graphwalker.protocol import chat
from graphwalker.protocol.interactive import PROTOCOL
from graphwalker.train import masks, memory, mixture, models, preflight, session, sft_data
from graphwalker.train.configs import HardwareConfig, TinyConfig, TrajectoryData

DEFAULT = Path(__file__).parent / "sft" / "tiny_demo.yaml"


def main(default: Path = DEFAULT) -> None:
    data, env, tiny, hardware, model_args, training = session.parse(
        (TrajectoryData, EnvConfig, TinyConfig, HardwareConfig, ModelConfig, SFTConfig),
        default,
        assistant_only_loss=True,
    )
    found = mixture.sources(data, "trajectories", data.trajectories)
    files = ", ".join(source.file for source in found)
    print(f"SFT of {model_args.model_name_or_path} on {files}; output in {training.output_dir}", flush=True)
    preflight.check_template(training)
    prompt = prompt_of(env)
    models.check_there(model_args.model_name_or_path)
    with training.main_process_first(desc="data and model"):
        if data.demo_data:
            prepare_demo_data(data.demo_data)
            if env.protocol == PROTOCOL:
                prepare_actor_demo(data.demo_data, env)
        trajectories = mixture.read_mixture(
            found, sft_data.read_trajectories, lambda trajectory: trajectory.question, data.max_trajectories
        )
        sft_data.check_protocol(trajectories, env.protocol)
        texts = [data.tokenizer_texts] if data.tokenizer_texts else [source.file for source in found]
        path = models.prepare_model(
            model_args.model_name_or_path,
            tiny,
            lambda: (chat.messages(t, prompt) for text in texts for t in sft_data.read_trajectories(text)),
            source=" ".join([prompt.template, *map(file_hash, texts)]),
            seed=training.seed,
        )
        path = models.with_turn_tokens(path, tiny.model_cache)
    if hardware.check_memory:
        memory.check_memory(training, path, model_args)
    tokenizer = load.load_tokenizer(path)
    model, peft_config = models.load_for_training(path, tokenizer, model_args)
    sft_data.settle_packing(training, model)
    asked = (prompt.messages(trajectory.question) for trajectory in trajectories)
    preflight.check_prompts(asked, tokenizer, model, training.max_length, "max_length")
    trainer = session.make_trainer(
        SFTTrainer,
        model=model,
        args=training,
        train_dataset=sft_data.conversations(trajectories, prompt, train_detours=data.train_detours),
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    sft_data.report_cut(trainer)
    masks.check_sft(trainer, len(trajectories))
    session.train_and_save(trainer, data, env, tiny)


if __name__ == "__main__":
    session.run(main)
