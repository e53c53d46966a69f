"""``graphwalker merge ADAPTER OUT``: a LoRA adapter and its base model into one model."""

import argparse
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    parser = subparsers.add_parser(
        "merge",
        help="merge a LoRA adapter into its base model",
        description="Writes a whole model, with tokenizer, that vLLM and any other program can load. The base model is "
        "read from where the adapter says that it was trained, in full precision even where training quantised it.",
    )
    parser.add_argument("adapter", help="the folder of an adapter, such as a stage trained with use_peft: true")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    parser.add_argument(
        "--dtype",
        default="bfloat16",
        choices=("bfloat16", "float16", "float32"),
        help="of the weights written (default: bfloat16); they are merged in float32",
    )


def run(args: argparse.Namespace) -> int:
    from graphwalker.errors import UserError
    from graphwalker.files import atomic_folder
    from graphwalker.inference import load

    if not load.is_adapter(args.adapter):
        raise UserError(f"{args.adapter}: no adapter here ({load.ADAPTER} is missing, or a whole model lies beside it)")
    if args.out.exists():
        raise UserError(f"{args.out} exists: name another folder, or remove it")
    import torch

    tokenizer = load.load_tokenizer(args.adapter)
    model = load.load_model(args.adapter, tokenizer, "float32").to(getattr(torch, args.dtype))
    with atomic_folder(args.out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    print(f"Merged {args.adapter} into {load.adapter_base(args.adapter)}: {args.out}")
    return 0
