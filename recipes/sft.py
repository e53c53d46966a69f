"""Supervised fine-tuning on trajectories (GraphWalker, section 2.3: SFT stages 1 and 2).

Trains on exactly what the model itself would write: thought, query or answer, end of turn. Observations
and the prompt are read, not trained. The same recipe serves both stages; only the data differs.

On a CPU, in minutes:    accelerate launch recipes/sft.py
On several GPUs:         accelerate launch --num_processes 8 recipes/sft.py --config recipes/sft/CONFIG.yaml
"""

from pathlib import Path

from trl import ModelConfig, SFTConfig, SFTTrainer, get_peft_config

from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig
from graphwalker.files import file_hash
from graphwalker.inference import load
from graphwalker.protocol import chat
from graphwalker.protocol.prompts import Prompt
from graphwalker.train import masks, mixture, models, session, sft_data
from graphwalker.train.configs import TinyConfig, TrajectoryData

DEFAULT = Path(__file__).parent / "sft" / "tiny_demo.yaml"


def main() -> None:
    data, env, tiny, model_args, training = session.parse(
        (TrajectoryData, EnvConfig, TinyConfig, ModelConfig, SFTConfig), DEFAULT, assistant_only_loss=True
    )
    found = mixture.sources(data, "trajectories", data.trajectories)
    files = ", ".join(source.file for source in found)
    print(f"SFT of {model_args.model_name_or_path} on {files}; output in {training.output_dir}", flush=True)
    prompt = Prompt(env.prompt, max_turns=env.max_turns, max_relations=env.max_relations)
    with training.main_process_first(desc="data and model"):
        if data.demo_data:
            prepare_demo_data(data.demo_data)
        trajectories = mixture.read_mixture(
            found, sft_data.read_trajectories, lambda trajectory: trajectory.question, data.max_trajectories
        )
        texts = [data.tokenizer_texts] if data.tokenizer_texts else [source.file for source in found]
        path = models.prepare_model(
            model_args.model_name_or_path,
            tiny,
            lambda: (chat.messages(t, prompt) for text in texts for t in sft_data.read_trajectories(text)),
            source=" ".join([env.prompt, *map(file_hash, texts)]),
            seed=training.seed,
        )
    tokenizer = load.load_tokenizer(path)
    model = load.load_model(path, tokenizer, model_args.dtype or "float32", model_args.attn_implementation)
    sft_data.check_packing(training, model.config)
    trainer = SFTTrainer(
        model=model,
        args=training,
        train_dataset=sft_data.conversations(trajectories, prompt, train_detours=data.train_detours),
        processing_class=tokenizer,
        peft_config=get_peft_config(model_args),
    )
    sft_data.report_cut(trainer)
    masks.check_sft(trainer, len(trajectories))
    session.train_and_save(trainer, data, env, tiny)


if __name__ == "__main__":
    session.run(main)
