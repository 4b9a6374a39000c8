"""Stands for a program with TRL's arguments."""

from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser

if __name__ == "__main__":
    config, model = TrlParser((SFTConfig, ModelConfig)).parse_args_and_config()
    SFTTrainer(model=model.model_name_or_path, args=config).train()
