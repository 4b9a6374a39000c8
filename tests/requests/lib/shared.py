"""Stands for a shared package."""
