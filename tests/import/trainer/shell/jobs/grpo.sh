#!/bin/bash
set -e
pip install -r requirements.txt
accelerate launch --num_processes "$SM_NUM_GPUS" sft.py --config "$2"
