"""A stand-in for a training script: the manifests beside it need one that exists."""
