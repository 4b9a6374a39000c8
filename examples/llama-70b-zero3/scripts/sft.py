"""Fine-tune a causal language model on conversations with TRL, its states sharded by DeepSpeed ZeRO-3.

`accelerate launch` starts one process for each GPU of all nodes. The arguments come from a YAML: `--config FILE`. The
channel has JSON lines with a column `messages`. Training resumes from the newest checkpoint, and the whole model is saved
at the end.
"""

import importlib
import os


def need(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"missing library: {module} (listed in requirements.txt)") from error


def build_parser():
    """The arguments of TRL. `--config` names a YAML of them; those of the command line replace it."""
    trl = need("trl")
    return trl.TrlParser((trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig))


def main(script, training, model):
    trl, datasets = need("trl"), need("datasets")
    utils = need("transformers.trainer_utils")
    # The arguments are read, so that each rank loads its part of the weights alone (`zero3_init_flag`).
    training.model_init_kwargs = {"dtype": model.dtype, "attn_implementation": model.attn_implementation}
    trainer = trl.SFTTrainer(
        model=model.model_name_or_path,
        args=training,
        train_dataset=datasets.load_dataset(script.dataset_name, split=script.dataset_train_split),
    )
    trainer.train(resume_from_checkpoint=utils.get_last_checkpoint(training.output_dir))
    # `zero3_save_16bit_model`: the weights are gathered from all ranks.
    trainer.save_model(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


if __name__ == "__main__":
    main(*build_parser().parse_args_and_config())
