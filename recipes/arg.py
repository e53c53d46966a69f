"""Training of ArG's generator: paths with reflection tokens, by the next token (ArG, section 4.1, Eq. 3).

The tokens are added to the model's vocabulary first, unless it has them. Trained is what the model is to write: what
is retrieved on the path (`paragraphs` switches it off), the labels, the answer and its end of turn; of a candidate that
is not followed only its label.

On a CPU, in minutes:  make demo && accelerate launch recipes/arg.py
On several GPUs:       accelerate launch --config_file launch/accelerate/zero3.yaml recipes/arg.py --config FILE.yaml
"""

from pathlib import Path

from trl import ModelConfig, SFTConfig, SFTTrainer

from data_pipelines.arg_demo import prepare_arg_demo
from data_pipelines.dataset import prepare_demo_data
from envs.factory import EnvConfig, prompt_of
from graphwalker.files import file_hash
from graphwalker.inference import load
from graphwalker.protocol import reflection
from graphwalker.train import masks, memory, mixture, models, preflight, session, sft_data
from graphwalker.train.configs import HardwareConfig, ReflectionData, TinyConfig
from graphwalker.train.reflection_rows import RowMaker, read_records, tokenizer_texts
from graphwalker.train.reflection_vocab import with_reflection_tokens

DEFAULT = Path(__file__).parent / "arg" / "tiny_demo.yaml"
READS = (ReflectionData, EnvConfig, TinyConfig, HardwareConfig, ModelConfig, SFTConfig)


def main(default: Path = DEFAULT) -> None:
    data, env, tiny, hardware, model_args, training = session.parse(READS, default)
    found = mixture.sources(data, "texts", data.texts)
    files = ", ".join(source.file for source in found)
    print(
        f"ArG's generator from {model_args.model_name_or_path} on {files}; output in {training.output_dir}", flush=True
    )
    prompt = prompt_of(env)
    models.check_there(model_args.model_name_or_path)
    with training.main_process_first(desc="data and model"):
        if data.demo_data:
            prepare_demo_data(data.demo_data)
            prepare_arg_demo(data.demo_data, env.kg)
        records = mixture.read_mixture(found, read_records, lambda record: record.question, data.max_texts)
        texts = [data.tokenizer_texts] if data.tokenizer_texts else [source.file for source in found]
        path = models.prepare_model(
            model_args.model_name_or_path,
            tiny,
            lambda: (text for file in texts for text in tokenizer_texts(read_records(file), prompt)),
            source=" ".join([prompt.template, *map(file_hash, texts)]),
            seed=training.seed,
        )
        path = with_reflection_tokens(path, tiny.model_cache, training.seed)
    if hardware.check_memory:
        memory.check_memory(training, path, model_args)
    tokenizer = load.load_tokenizer(path)
    model, peft_config = models.load_for_training(path, tokenizer, model_args)
    sft_data.settle_packing(training, model)
    asked = (reflection.messages(record.question, record.topic, prompt) for record in records)
    preflight.check_prompts(asked, tokenizer, model, training.max_length, "max_length")
    maker = RowMaker(tokenizer, prompt, paragraphs=data.paragraphs, branches=data.branches, seed=training.seed)
    rows = maker.dataset(records)
    trainer = session.make_trainer(
        SFTTrainer,
        model=model,
        args=training,
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    sft_data.report_cut(trainer)
    masks.check_sft(trainer, len(rows))
    session.train_and_save(trainer, data, env, tiny)


if __name__ == "__main__":
    session.run(main)
