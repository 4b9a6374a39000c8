//! Hugging Face `config.json` to an architecture.
