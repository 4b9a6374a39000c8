"""Stands for a program that starts torchrun itself."""
