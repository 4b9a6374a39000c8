#!/bin/sh
exec python train.py "$@"
