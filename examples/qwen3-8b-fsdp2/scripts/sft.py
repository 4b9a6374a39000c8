"""Fine-tune a causal language model on conversations with TRL; accelerate's FSDP2 shards all of it.

`accelerate launch` starts one process for each GPU and reads the YAML that trainc wrote. The channel has JSON lines with
a column `messages`. Training resumes from the newest checkpoint, and the whole model is saved at the end.
"""

import importlib
import os


def need(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} (listed in requirements.txt)") from error


def build_parser():
    """The arguments of TRL; what follows is fixed for this program, and no part of the plan."""
    trl = need("trl")
    parser = trl.TrlParser((trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig))
    parser.set_defaults(
        output_dir="/opt/ml/checkpoints",
        packing=True,
        logging_steps=5,
        save_total_limit=2,
        report_to=["none"],
    )
    return parser


def main(script, training, model):
    trl, datasets = need("trl"), need("datasets")
    utils = need("transformers.trainer_utils")
    # accelerate keeps the weights in fp32 and computes in bf16, whatever the type of the file.
    training.model_init_kwargs = {"dtype": "float32", "attn_implementation": model.attn_implementation}
    trainer = trl.SFTTrainer(
        model=model.model_name_or_path,
        args=training,
        train_dataset=datasets.load_dataset(script.dataset_name, split=script.dataset_train_split),
    )
    trainer.train(resume_from_checkpoint=utils.get_last_checkpoint(training.output_dir))
    # Checkpoints are sharded; the model at the end is one.
    if trainer.is_fsdp_enabled:
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(*build_parser().parse_args_and_config())
